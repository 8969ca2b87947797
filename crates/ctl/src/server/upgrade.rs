//! Other programs for the processes of a run.

use std::path::PathBuf;
use std::sync::Arc;

use tonic::{Code, Status};
use weir_api::v1;

use crate::events::{About, What};
use crate::upgrade::{Found, HostPrograms, ProgramId, ProgramTarget, Upgrades};

use super::asked::Asked;

/// Why a run has no programs to tell of.
const UNKNOWN: &str = "this way of running does not know the programs of its processes";

impl Asked {
    /// The programs of the run's processes, and what each says of a target.
    pub(super) async fn programs(
        &self,
        target: Option<v1::ProgramTarget>,
    ) -> Result<v1::ListProgramsResponse, Status> {
        let target = target.map(target_of).transpose()?;
        let looked = self.with_upgrades(move |upgrades| upgrades.look(target.as_ref()));
        let hosts = looked.await?.into_iter().map(host).collect();
        Ok(v1::ListProgramsResponse { hosts })
    }

    /// Has a process become another program.
    pub(super) async fn upgrade(&self, request: v1::UpgradeProcessRequest) -> Result<(), Status> {
        let target = request.target.ok_or_else(no_target).and_then(target_of)?;
        if request.is_switch {
            return self.upgrade_switch(target, request.digest).await;
        }
        let (host, wanted) = (request.host.clone(), target.clone());
        let digest = request.digest.clone();
        let upgraded =
            self.with_upgrades(move |upgrades| upgrades.upgrade_agent(&host, &wanted, &digest));
        upgraded.await?.map_err(Status::failed_precondition)?;
        let what = format!("its agent is the program {} now", request.digest);
        self.events
            .note(About::Host(request.host), What::Upgraded(what));
        Ok(())
    }

    async fn upgrade_switch(&self, target: ProgramTarget, digest: String) -> Result<(), Status> {
        let prepared =
            self.with_upgrades(move |upgrades| upgrades.prepare_switch(&target, &digest));
        prepared.await?.map_err(Status::failed_precondition)?;
        let handing_over = self.hand_over().await;
        let refused = [Code::FailedPrecondition, Code::Unimplemented];
        // Where no answer came, the switch may hand over all the same.
        if matches!(&handing_over, Err(status) if refused.contains(&status.code())) {
            self.with_upgrades(|upgrades| upgrades.forget()).await?;
        }
        handing_over
    }

    /// Asks for programs on a thread that may wait.
    async fn with_upgrades<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut dyn Upgrades) -> T + Send + 'static,
    ) -> Result<T, Status> {
        let mut upgrades = Arc::clone(&self.upgrades).lock_owned().await;
        let asking = tokio::task::spawn_blocking(move || {
            let upgrades = (*upgrades).as_mut();
            upgrades.map(|upgrades| question(&mut **upgrades))
        });
        let failed = |_| Status::internal("the programs can't be asked for");
        let answer = asking.await.map_err(failed)?;
        answer.ok_or_else(|| Status::unimplemented(UNKNOWN))
    }
}

fn no_target() -> Status {
    Status::invalid_argument("which program? give its path, or ask for the one before")
}

fn target_of(target: v1::ProgramTarget) -> Result<ProgramTarget, Status> {
    match (target.former, target.path) {
        (true, path) if path.is_empty() => Ok(ProgramTarget::Former),
        (false, path) if !path.is_empty() => Ok(ProgramTarget::Path(PathBuf::from(path))),
        _ => Err(no_target()),
    }
}

fn program(program: ProgramId) -> v1::Program {
    v1::Program {
        version: program.version,
        digest: program.digest,
    }
}

fn host(programs: HostPrograms) -> v1::HostPrograms {
    let mut host = v1::HostPrograms {
        host: programs.host,
        is_switch: programs.is_switch,
        goal: programs.goal.unwrap_or_default(),
        ..v1::HostPrograms::default()
    };
    match programs.program {
        Ok(own) => host.program = Some(program(own)),
        Err(why) => host.refused = why,
    }
    host.runtimes = (programs.runtimes.into_iter())
        .map(|(runtime, its)| v1::RuntimeProgram {
            runtime,
            program: Some(program(its)),
        })
        .collect();
    match programs.target {
        Some(Ok(Found {
            program: its,
            changes,
        })) => {
            host.target = Some(program(its));
            host.changes = (changes.into_iter())
                .map(|change| v1::StateChange {
                    function: change.function,
                    from: u32::from(change.from),
                    to: u32::from(change.to),
                    goes_back: change.goes_back,
                })
                .collect();
        }
        Some(Err(why)) => host.refused = why,
        None => {}
    }
    host
}
