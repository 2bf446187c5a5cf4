//! Identifiers drawn from a seed: one seed gives one run, so that a simulated broker repeats itself.

use ottla_protocol::Uuid;

/// SplitMix64 (Steele, Lea and Flood 2014): every seed is good, and nothing here has to be secret.
#[derive(Debug, Clone)]
pub(crate) struct Ids(u64);

impl Ids {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A random UUID (version 4). As in Kafka its text does not begin with "-", which command lines would take for an
    /// option.
    pub(crate) fn uuid(&mut self) -> Uuid {
        loop {
            let bits = (u128::from(self.next()) << 64) | u128::from(self.next());
            let bits = bits & !(0xF << 76) | (0x4 << 76);
            let bits = bits & !(0b11 << 62) | (0b10 << 62);
            let uuid = Uuid(bits.to_be_bytes());
            if !uuid.to_string().starts_with('-') {
                return uuid;
            }
        }
    }

    /// A random UUID as most of the world writes it: 8-4-4-4-12 hexadecimal digits.
    pub(crate) fn uuid_text(&mut self) -> String {
        let (high, low) = (self.next(), self.next());
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            high >> 16 & 0xFFFF,
            high & 0xFFF,
            0x8000 | low >> 48 & 0x3FFF,
            low & 0xFFFF_FFFF_FFFF
        )
    }
}
