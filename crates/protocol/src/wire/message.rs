//! The traits of every generated message.

use std::fmt::Debug;

use super::{DecodeError, EncodeError, Reader, Size, Versions, Writer, errors};
use crate::messages::ApiKey;

/// A message of the protocol, for all its versions.
pub trait Message: Default + Clone + Debug + PartialEq + Send + Sync + 'static {
    /// Kafka's name, such as `FetchRequest`.
    const NAME: &'static str;
    /// The known versions.
    const VERSIONS: Versions;
    /// The first version with compact lengths and tags (KIP-482).
    const FLEXIBLE_FROM: Option<i16>;

    /// Computes the exact size in a version of [`Self::VERSIONS`], with every check of encoding.
    #[doc(hidden)]
    fn measure(&self, version: i16, size: &mut Size) -> Result<(), EncodeError>;

    /// Writes a message that [`Self::measure`] has accepted.
    #[doc(hidden)]
    fn write(&self, version: i16, out: &mut Writer);

    /// Reads a version of [`Self::VERSIONS`].
    #[doc(hidden)]
    fn read(version: i16, input: &mut Reader) -> Result<Self, DecodeError>;

    /// The number of bytes that [`Self::encode`] writes.
    ///
    /// # Errors
    /// As for [`Self::encode`].
    fn size(&self, version: i16) -> Result<usize, EncodeError> {
        self.measured(version).map(|size| size.total())
    }

    /// The size in bytes, and how many of them are not copied.
    ///
    /// # Errors
    /// As for [`Self::encode`].
    #[doc(hidden)]
    fn measured(&self, version: i16) -> Result<Size, EncodeError> {
        if !Self::VERSIONS.contains(version) {
            return Err(errors::encode_version(Self::NAME, version, Self::VERSIONS));
        }
        let mut size = Size::default();
        match self.measure(version, &mut size) {
            Ok(()) if size.total() <= i32::MAX as usize => Ok(size),
            Ok(()) => Err(errors::too_large(size.total()).at(Self::NAME)),
            Err(error) => Err(error.at(Self::NAME)),
        }
    }

    /// Encodes the message in a version, without a header.
    ///
    /// # Errors
    /// The version is not in [`Self::VERSIONS`]; a field that the version lacks differs from its default and is not ignorable;
    /// null, where the version does not allow it; a string above 32,767 bytes; more than 2 GiB in all. Nothing is written then.
    fn encode(&self, version: i16, out: &mut Writer) -> Result<(), EncodeError> {
        let size = self.measured(version)?;
        out.reserve(size.copied());
        self.write(version, out);
        Ok(())
    }

    /// Decodes the message in a version, without a header. Bytes after it stay in the reader.
    ///
    /// # Errors
    /// The version is not in [`Self::VERSIONS`], or the bytes are not a message of it; the error names the field and why.
    fn decode(version: i16, input: &mut Reader) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(version) {
            return Err(errors::decode_version(Self::NAME, version, Self::VERSIONS));
        }
        Self::read(version, input).map_err(|error| error.at(Self::NAME))
    }
}

/// A request.
pub trait Request: Message {
    /// Its API.
    const KEY: ApiKey;
    /// Its response, in the same version.
    type Response: Response;
}

/// A response.
pub trait Response: Message {
    /// Its API.
    const KEY: ApiKey;
}
