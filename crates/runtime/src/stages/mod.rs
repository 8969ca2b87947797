//! A plan of several stages: the first one classifies, the later ones are fed.
//!
//! Only the first stage of a plan has a table of flows: it parses keys, holds
//! fragments, tracks TCP, opens and ends flows and units. Later ones have state
//! blocks under the same record numbers. All that they must know comes to them in
//! order, in the one stream of frames:
//!
//! - packets carry where they go next (`next` in their metadata) and their
//!   place in their flow ([`weir_packet::FrameMeta::place`]);
//! - frames of notices say which flow or unit a record has become, and that it
//!   has ended, why and when. Those that the classification of a burst opened
//!   and ended come before the burst's packets.
//!
//! A packet that is for a stage further on, or for none, passes a stage
//! untouched and in its turn, and so do notices. So each flow's packets, ends
//! included, come to each function in the order in which one runtime with all
//! functions would take them; and the states live as long.

mod fed;
mod feed;
mod first;
mod later;
mod notices;

use weir_nf::host::Stage;
use weir_nf::{Needs, Scope};
use weir_packet::Advise;

use crate::scratch::MAX_SCOPES;
use crate::stage_error::StageError;

use fed::Fed;
use feed::Feed;

/// Role of a runtime in its plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// The only stage.
    #[default]
    Alone,
    /// The first of several. Its output is for a [`Role::Later`].
    First(Rest),
    /// Behind a first one.
    Later {
        /// True for the stage from which packets leave the plan: it gives
        /// their metadata back as a runtime alone would leave it, and keeps
        /// notices to itself.
        last: bool,
        /// The most that a function of the whole plan needs: headers are read
        /// as deep as the first stage reads them, or a tunnel that is open
        /// there would be closed here.
        needs: Needs,
    },
}

/// The part of a plan that a runtime has.
#[derive(Debug)]
pub(crate) enum InPlan {
    Alone,
    First(Box<Feed>),
    Later(Box<Fed>),
}

impl InPlan {
    /// Of a stage with so many flows and wider scopes; `first` is the number of its
    /// first function in the whole plan.
    pub(crate) fn new(
        role: &Role,
        first: u8,
        flows: usize,
        scopes: usize,
        advise: Advise,
    ) -> InPlan {
        match role {
            Role::Alone => InPlan::Alone,
            Role::First(_) => InPlan::First(Box::new(Feed::new(flows as u32, scopes))),
            Role::Later { last, .. } => {
                InPlan::Later(Box::new(Fed::new(first, *last, flows, advise)))
            }
        }
    }

    #[inline]
    pub(crate) fn kind(&self) -> Kind {
        match self {
            InPlan::Alone => Kind::Alone,
            InPlan::First(_) => Kind::First,
            InPlan::Later(_) => Kind::Later,
        }
    }

    #[inline]
    pub(crate) fn feed(&self) -> Option<&Feed> {
        match self {
            InPlan::First(feed) => Some(feed),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn feed_mut(&mut self) -> Option<&mut Feed> {
        match self {
            InPlan::First(feed) => Some(feed),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn fed(&self) -> Option<&Fed> {
        match self {
            InPlan::Later(fed) => Some(fed),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn fed_mut(&mut self) -> Option<&mut Fed> {
        match self {
            InPlan::Later(fed) => Some(fed),
            _ => None,
        }
    }
}

/// A [`Role`] without what goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Alone,
    First,
    Later,
}

impl Role {
    /// Of a later stage of the plan that has these `stages`, the first one
    /// included; see [`Role::Later`] for `last`.
    pub fn later<'a>(stages: impl IntoIterator<Item = &'a Stage>, last: bool) -> Role {
        let needs = stages.into_iter().map(needs_of);
        Role::Later {
            last,
            needs: needs.max().unwrap_or(Needs::Link),
        }
    }

    /// The depth to which a stage parses packets whose own functions need `own`.
    /// If they need the bytes only, it parses nothing.
    pub(crate) fn reads(&self, own: Needs) -> Needs {
        match self {
            Role::Later { needs, .. } if own > Needs::Link => own.max(*needs),
            _ => own,
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            Role::Alone => Kind::Alone,
            Role::First(_) => Kind::First,
            Role::Later { .. } => Kind::Later,
        }
    }
}

/// The needs of the later stages, which the first stage of a plan serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    needs: Needs,
    scopes: [Option<Scope>; MAX_SCOPES],
}

impl Rest {
    /// For later stages of these functions.
    ///
    /// # Errors
    ///
    /// If they keep state by more kinds of key than one runtime can.
    pub fn of<'a>(stages: impl IntoIterator<Item = &'a Stage>) -> Result<Rest, StageError> {
        let mut rest = Rest {
            needs: Needs::Link,
            scopes: [None; MAX_SCOPES],
        };
        for stage in stages {
            rest.needs = rest.needs.max(needs_of(stage));
            for node in &stage.nodes {
                let scope = node.processor.scope();
                if scope == Scope::Flow || rest.scopes.contains(&Some(scope)) {
                    continue;
                }
                let Some(free) = rest.scopes.iter_mut().find(|s| s.is_none()) else {
                    return Err(StageError(format!(
                        "chain {} has more than {MAX_SCOPES} scopes",
                        stage.chain
                    )));
                };
                *free = Some(scope);
            }
        }
        Ok(rest)
    }

    pub(crate) fn needs(&self) -> Needs {
        self.needs
    }

    pub(crate) fn scopes(&self) -> impl Iterator<Item = Scope> + '_ {
        self.scopes.iter().copied().flatten()
    }
}

/// The most that a function of the stage needs.
pub(crate) fn needs_of(stage: &Stage) -> Needs {
    let needs = stage
        .nodes
        .iter()
        .map(|node| node.processor.descriptor().needs);
    needs
        .max()
        .unwrap_or(Needs::Link)
        .max(if stage.flows.always {
            Needs::Flow
        } else {
            Needs::Link
        })
}

/// The number under which stages know a scope. A stage has at most one scope
/// of its own making: that is 0.
pub(crate) fn code_of(scope: Scope) -> u8 {
    match scope {
        Scope::Fields(fields) => fields.bits(),
        _ => 0,
    }
}

/// Refuses a stage that can't play its role.
pub(crate) fn check_role(stage: &Stage, role: &Role, follows: bool) -> Result<(), StageError> {
    if *role == Role::Alone {
        return Ok(());
    }
    if follows {
        return Err(StageError(format!(
            "chain {}: a stage under a switch is alone",
            stage.chain
        )));
    }
    if usize::from(stage.first) + stage.nodes.len() >= usize::from(u8::MAX) {
        return Err(StageError(format!(
            "chain {} has more functions than packets can name",
            stage.chain
        )));
    }
    let later = matches!(role, Role::Later { .. });
    if later && stage.first == 0 || !later && stage.first != 0 {
        return Err(StageError(format!(
            "chain {}: function 0 is in the first stage, and in no other",
            stage.chain
        )));
    }
    for node in stage.nodes.iter().filter(|_| later) {
        let kind = node.processor.descriptor();
        let scope = node.processor.scope();
        let why = if kind.aliases {
            "gives flows further names"
        } else if kind.turns {
            "turns packets"
        } else if matches!(scope, Scope::Own(_)) {
            "keeps state by a key of its own"
        } else {
            continue;
        };
        return Err(StageError(format!(
            "{} {why}: it must be in the first stage",
            node.name
        )));
    }
    if let Role::First(rest) = role
        && let Some(own) = rest.scopes().find(|s| matches!(s, Scope::Own(_)))
    {
        return Err(StageError(format!(
            "chain {}: state by {} must be in the first stage",
            stage.chain,
            own.describe()
        )));
    }
    Ok(())
}
