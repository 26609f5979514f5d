//! A request that somebody else carries to the nodes: another claim's release, or one step for several claims.

use super::{Pursuit, RoundKind};
use crate::quorum::Scene;
use crate::store::{Proposal, Step};

impl Pursuit {
    /// It waits for its turn, and nothing of it is under way.
    pub(in crate::quorum) fn rests_in_line(&self) -> bool {
        self.waiting && self.round.is_none() && self.nodes.iter().all(|node| node.in_line && !node.is_unsettled())
    }

    /// An attempt under this token, carried to the nodes by somebody else: `known` to be there.
    pub(in crate::quorum) fn begin_carried(&mut self, scene: &mut Scene<'_>, token: Proposal, known: bool) -> u32 {
        let request = scene.new_request();
        self.highest = self.highest.max(token.number());
        self.carried = Some((request, token));
        self.contended = known;
        let all: Vec<usize> = (0..scene.nodes()).collect();
        self.await_answers(scene, request, &all);
        request
    }

    /// A node did not grant us together with others, and changed nothing: it is asked for us alone, by the same request.
    pub(super) fn ask_alone(&mut self, scene: &mut Scene<'_>, node: usize, request: u32) {
        // Said twice, the second would pass for the answer to what is asked now.
        let Some((carried, token)) = self.carried.filter(|_| !self.nodes[node].alone) else { return };
        self.nodes[node].alone = true;
        if carried != request || self.round.is_none_or(|round| round.kind != RoundKind::Asked(request)) {
            return self.nodes[node].under_way.retain(|other| *other != request);
        }
        // Nodes that vote must be asked for the same token. One store gets a fresh one: behind its name there may be
        // another server by now.
        let token = if scene.nodes() == 1 { self.propose(scene, None) } else { token };
        let claim = scene.claim.clone();
        scene.send(node, request, Step::Acquire { claim, attempt: request, token, unify: false });
    }
}
