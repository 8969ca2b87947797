//! Runtimes that come and go while a cluster runs, as an operator asks (`weir drain`,
//! `weir scale`).

use weir_ctl::command::{Resize, Resized};
use weir_graph::ScriptMode;
use weir_protocol::RuntimeId;

use crate::driver::Cluster;

use super::player::move_mode;

/// The runtimes that are to end as soon as they have given their units away.
#[derive(Debug, Default)]
pub(super) struct Leaving(Vec<RuntimeId>);

impl Leaving {
    /// Begins what is asked for.
    ///
    /// # Errors
    ///
    /// Nothing has changed, or not all of it: why.
    pub(super) fn begin(
        &mut self,
        cluster: &mut Cluster,
        wanted: Resize,
    ) -> Result<Resized, String> {
        match wanted {
            Resize::Drain(id, mode) => {
                self.drain(cluster, RuntimeId(id), mode)?;
                Ok(Resized {
                    draining: vec![id],
                    ..Resized::default()
                })
            }
            Resize::Scale(count, mode) => self.scale(cluster, count as usize, mode),
        }
    }

    fn drain(
        &mut self,
        cluster: &mut Cluster,
        id: RuntimeId,
        mode: ScriptMode,
    ) -> Result<(), String> {
        let runtime = id.0;
        if cluster.drains(id) {
            if self.0.contains(&id) {
                return Err(format!("runtime {runtime} is being drained already"));
            }
            // A script began it, and may never end it.
            self.0.push(id);
            return Ok(());
        }
        let serving = cluster.serving();
        if !cluster.runs(id) {
            return Err(match serving.contains(&id) {
                true => format!("runtime {runtime} is only starting: drain it when it is ready"),
                false => format!("there is no runtime {runtime}: `weir get runtimes` lists them"),
            });
        }
        if !serving
            .iter()
            .any(|other| *other != id && cluster.runs(*other))
        {
            return Err(format!(
                "runtime {runtime} is the only one that is ready: start another one before \
                 (`weir scale {}`)",
                serving.len() + 1
            ));
        }
        let drained = cluster.drain(id, move_mode(mode));
        drained.map_err(|why| why.to_string())?;
        self.0.push(id);
        Ok(())
    }

    fn scale(
        &mut self,
        cluster: &mut Cluster,
        count: usize,
        mode: ScriptMode,
    ) -> Result<Resized, String> {
        let most = cluster.most_runtimes();
        match count {
            0 => return Err("a cluster has at least one runtime".to_owned()),
            _ if count > most => {
                return Err(format!(
                    "this instance has room for {most} runtimes: `--most-runtimes {count}`, or \
                     `most_runtimes: {count}` in the composition, makes more at its start"
                ));
            }
            _ => {}
        }
        let mut resized = Resized::default();
        let serving = cluster.serving();
        for _ in serving.len()..count {
            let added = cluster.add().map_err(|why| match self.0.is_empty() {
                true => why.to_string(),
                false => format!("{why}; some are drained: try again when they have ended"),
            });
            resized.started.push(added?.0);
        }
        for id in serving.iter().skip(count).rev() {
            self.drain(cluster, *id, mode)?;
            resized.draining.push(id.0);
        }
        Ok(resized)
    }

    /// Ends those that have nothing left. One that has died is over.
    pub(super) fn attend(&mut self, cluster: &mut Cluster) {
        self.0
            .retain(|id| cluster.drains(*id) && !cluster.remove(*id));
    }
}
