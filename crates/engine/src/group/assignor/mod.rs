//! Who gets which partition: the assignors of the classic group protocol, as pure functions.
//!
//! The leader of a group assigns, for all members, and any client may be the leader. So an assignment here is the one that Kafka's
//! own classes make, partition by partition: a group whose leader is now this client and now a Java client never moves a partition
//! for that reason. `tests/conformance` holds both against each other.
//!
//! What comes from other members is read in [`Subscription::decode`] and in the assignors, and harms nobody: what does not exist,
//! is named twice or does not decode counts as not said. There, and only there, a result may differ from Kafka's, whose assignors
//! throw, or hand out partitions twice or to members that did not subscribe to them; `tests/conformance/README.md` lists the cases.
//!
//! Each file has one reason, and imports only files above it in this table:
//!
//! | file | its reason |
//! |---|---|
//! | `member` | what members tell, what there is to assign, and what an assignor is |
//! | `consumer_protocol` | both as bytes |
//! | `user_data` | what the sticky assignors put into a subscription |

mod consumer_protocol;
mod member;
mod user_data;

pub use self::consumer_protocol::{Assignment, Subscription};
pub use self::member::{
    Assignments, Assignor, Member, Owned, RebalanceProtocol, TopicPartition, Topics,
};
