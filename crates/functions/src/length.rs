//! Parts of a packet on which its length depends.

use weir_nf::Parts;

/// A packet gets longer or shorter by what is put in front of its network header or carried
/// behind its transport header: both are written then.
pub(crate) const LENGTH: Parts = Parts::LINK.and(Parts::PAYLOAD);
