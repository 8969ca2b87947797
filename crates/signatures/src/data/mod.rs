//! Values in files that rules look up: `dataset`, `datarep`, `filemd5` and its like, `iprep`.

mod addresses;
mod options;
mod reputation;
mod set;
mod which;

pub use addresses::AddressTest;
pub use options::{DataTest, DataUse};
pub use reputation::{ReputationTest, Reputations};
pub use set::{DataKind, DataSet};
pub use which::Which;

pub(crate) use options::{hash_list, parse};
pub(crate) use reputation::parse as parse_reputation;
