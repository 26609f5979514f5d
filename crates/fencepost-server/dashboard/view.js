// What views that are read from top to bottom have in common.

export class View {
  mount() {
    // Whoever does not see the page hears where they are.
    this.root.querySelector('h1').focus();
    this.update();
  }

  unmount() {}

  /** The names in sight, which are kept fresh. */
  seen() {
    return [];
  }
}
