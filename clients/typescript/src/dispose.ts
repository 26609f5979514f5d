// Where `await using` is older than the runtime, the compiler looks for this symbol.
if (!Reflect.has(Symbol, "asyncDispose")) {
  Object.defineProperty(Symbol, "asyncDispose", { value: Symbol.for("nodejs.asyncDispose"), configurable: true });
}
export {};
