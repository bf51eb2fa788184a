//! The chain of offsets of one log, with the one assertion on it.
//! Owned by `Log`; every move of an offset goes through here.
//! Always: log_start <= last_stable <= high_watermark <= durable <= appended, and none of them goes back.
//! What makes an offset durable is decided by the writer, not here.

use crate::base::Offset;

/// log_start <= last_stable <= high_watermark <= durable <= appended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chain {
    log_start: Offset,
    last_stable: Offset,
    high_watermark: Offset,
    durable: Offset,
    appended: Offset,
}

impl Chain {
    /// A log whose records `log_start..end` are all durable.
    pub fn new(log_start: Offset, end: Offset) -> Chain {
        let chain = Chain {
            log_start,
            last_stable: end,
            high_watermark: end,
            durable: end,
            appended: end,
        };
        chain.check();
        chain
    }

    /// First offset a reader may ask for.
    pub fn log_start(&self) -> Offset {
        self.log_start
    }

    /// End of what a read_committed reader may see. Without transactions it is the high watermark.
    pub fn last_stable(&self) -> Offset {
        self.last_stable
    }

    /// End of what readers may see. One copy: it is the durable offset.
    pub fn high_watermark(&self) -> Offset {
        self.high_watermark
    }

    /// End of what is on the disk for certain.
    pub fn durable(&self) -> Offset {
        self.durable
    }

    /// End of what has been appended: the next base offset.
    pub fn appended(&self) -> Offset {
        self.appended
    }

    pub(super) fn append_to(&mut self, end: Offset) {
        assert!(
            end > self.appended,
            "append must move {} forward, got {end}",
            self.appended
        );
        self.appended = end;
        self.check();
    }

    pub(super) fn durable_to(&mut self, end: Offset) {
        assert!(
            end > self.durable,
            "durable must move {} forward, got {end}",
            self.durable
        );
        self.durable = end;
        self.high_watermark = end;
        self.last_stable = end;
        self.check();
    }

    pub(super) fn log_start_to(&mut self, start: Offset) {
        assert!(
            start >= self.log_start,
            "log start must not go back from {} to {start}",
            self.log_start
        );
        self.log_start = start;
        self.check();
    }

    fn check(&self) {
        assert!(
            Offset::ZERO <= self.log_start
                && self.log_start <= self.last_stable
                && self.last_stable <= self.high_watermark
                && self.high_watermark <= self.durable
                && self.durable <= self.appended,
            "offsets out of order: {self:?}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visible_offsets_follow_durable_never_appended() {
        let mut chain = Chain::new(Offset(3), Offset(5));
        chain.append_to(Offset(9));
        assert_eq!(chain.high_watermark(), Offset(5));
        chain.durable_to(Offset(7));
        assert_eq!(
            (chain.last_stable(), chain.high_watermark()),
            (Offset(7), Offset(7))
        );
    }

    #[test]
    #[should_panic(expected = "offsets out of order")]
    fn durable_cannot_pass_appended() {
        Chain::new(Offset(0), Offset(5)).durable_to(Offset(6));
    }

    #[test]
    #[should_panic(expected = "offsets out of order")]
    fn log_start_cannot_pass_the_high_watermark() {
        let mut chain = Chain::new(Offset(0), Offset(5));
        chain.append_to(Offset(9));
        chain.log_start_to(Offset(6));
    }
}
