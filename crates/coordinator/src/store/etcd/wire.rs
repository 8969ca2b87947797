//! Messages of etcd's API (version 3), as far as a store needs them.
//!
//! Names and numbers of fields are those of `rpc.proto` and `kv.proto` of etcd 3.4 and later. The messages
//! are written here, since the libraries that have all of them need a compiler of protocols to be built.

use prost::Message;

/// Paths of the calls.
pub(super) const RANGE: &str = "/etcdserverpb.KV/Range";
pub(super) const TXN: &str = "/etcdserverpb.KV/Txn";
pub(super) const LEASE_GRANT: &str = "/etcdserverpb.Lease/LeaseGrant";
pub(super) const LEASE_KEEP_ALIVE: &str = "/etcdserverpb.Lease/LeaseKeepAlive";
pub(super) const LEASE_REVOKE: &str = "/etcdserverpb.Lease/LeaseRevoke";

#[derive(Clone, PartialEq, Message)]
pub(super) struct ResponseHeader {
    /// Of the whole store: each change has the next one.
    #[prost(int64, tag = "3")]
    pub(super) revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(int64, tag = "2")]
    pub(super) create_revision: i64,
    /// 1 when it was made; each put adds 1.
    #[prost(int64, tag = "4")]
    pub(super) version: i64,
    #[prost(bytes = "vec", tag = "5")]
    pub(super) value: Vec<u8>,
}

/// Keys from `key` to before `range_end`; without an end `key` alone.
#[derive(Clone, PartialEq, Message)]
pub(super) struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) range_end: Vec<u8>,
    /// 0: all.
    #[prost(int64, tag = "3")]
    pub(super) limit: i64,
    #[prost(bool, tag = "8")]
    pub(super) keys_only: bool,
}

impl RangeRequest {
    /// A key alone.
    pub(super) fn of(key: Vec<u8>) -> RangeRequest {
        RangeRequest {
            key,
            ..RangeRequest::default()
        }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RangeResponse {
    #[prost(message, repeated, tag = "2")]
    pub(super) kvs: Vec<KeyValue>,
    #[prost(bool, tag = "3")]
    pub(super) more: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) value: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(super) lease: i64,
    /// The key keeps its value; it must be there.
    #[prost(bool, tag = "5")]
    pub(super) ignore_value: bool,
    /// The key keeps its lease; it must be there.
    #[prost(bool, tag = "6")]
    pub(super) ignore_lease: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DeleteRangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) range_end: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RequestOp {
    #[prost(oneof = "Request", tags = "1, 2, 3")]
    pub(super) request: Option<Request>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Request {
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    DeleteRange(DeleteRangeRequest),
}

impl From<Request> for RequestOp {
    fn from(request: Request) -> RequestOp {
        RequestOp {
            request: Some(request),
        }
    }
}

/// True where what is compared of a key equals a number.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Compare {
    /// How: 0 is equality.
    #[prost(int32, tag = "1")]
    result: i32,
    /// What: 0 is its version, 1 the revision in which it was made.
    #[prost(int32, tag = "2")]
    target: i32,
    #[prost(bytes = "vec", tag = "3")]
    key: Vec<u8>,
    #[prost(oneof = "TargetUnion", tags = "4, 5")]
    target_union: Option<TargetUnion>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum TargetUnion {
    #[prost(int64, tag = "4")]
    Version(i64),
    #[prost(int64, tag = "5")]
    CreateRevision(i64),
}

impl Compare {
    /// The key has had so many puts.
    pub(super) fn version(key: Vec<u8>, version: i64) -> Compare {
        Compare {
            result: 0,
            target: 0,
            key,
            target_union: Some(TargetUnion::Version(version)),
        }
    }

    /// The key was made in that revision; 0: there is no such key.
    pub(super) fn made_in(key: Vec<u8>, revision: i64) -> Compare {
        Compare {
            result: 0,
            target: 1,
            key,
            target_union: Some(TargetUnion::CreateRevision(revision)),
        }
    }
}

/// All of `success` where each comparison is true, else all of `failure`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    pub(super) compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub(super) success: Vec<RequestOp>,
    #[prost(message, repeated, tag = "3")]
    pub(super) failure: Vec<RequestOp>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TxnResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<ResponseHeader>,
    #[prost(bool, tag = "2")]
    pub(super) succeeded: bool,
    /// One for each request that was done.
    #[prost(message, repeated, tag = "3")]
    pub(super) responses: Vec<ResponseOp>,
}

/// The answer to a request of a transaction; those to puts and deletes are not read.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ResponseOp {
    #[prost(message, optional, tag = "1")]
    pub(super) range: Option<RangeResponse>,
}

/// The number of the lease is etcd's choice.
#[derive(Clone, PartialEq, Message)]
pub(super) struct LeaseGrantRequest {
    /// Seconds.
    #[prost(int64, tag = "1")]
    pub(super) ttl: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LeaseGrantResponse {
    #[prost(int64, tag = "2")]
    pub(super) id: i64,
    /// Seconds: may be more than was asked for.
    #[prost(int64, tag = "3")]
    pub(super) ttl: i64,
}

/// Asks for a lease to go on, or to end.
#[derive(Clone, PartialEq, Message)]
pub(super) struct LeaseRequest {
    #[prost(int64, tag = "1")]
    pub(super) id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LeaseKeepAliveResponse {
    /// Seconds from now; 0: the lease is over.
    #[prost(int64, tag = "3")]
    pub(super) ttl: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LeaseRevokeResponse {}
