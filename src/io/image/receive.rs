//! Receiving a record straight into the end of an image.
//! A `Receiving` is owned by the connection that receives; the image knows its place and may move it aside at any await.
//! Always: bytes go to the reserved place or to memory of its own, in order, and are never seen as part of the file before
//! `FileImage::commit`.
//! Reading the socket is `socket`'s, checking the bytes is done above.

use std::cell::{Ref, RefCell};
use std::fmt;
use std::io;
use std::ops::Deref;
use std::rc::Rc;

use crate::io::arena::{Extent, Pinned};

/// A record on its way in; dropped: nothing was there.
pub struct Receiving {
    place: Rc<Place>,
    prefix: usize,
    len: usize,
}

/// Where the bytes of a `Receiving` are.
pub(super) struct Place(RefCell<State>);

enum State {
    InPlace {
        extent: Extent,
        /// Offset of the first byte in the extent.
        at: usize,
        filled: usize,
    },
    Aside(Vec<u8>),
}

/// Most bytes that memory set aside grows by before they have come.
const ASIDE_STEP_BYTES: usize = 256 << 10;

impl Receiving {
    pub(super) fn new(place: Rc<Place>, prefix: usize, len: usize) -> Receiving {
        Receiving { place, prefix, len }
    }

    /// Bytes to receive in all.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that are put in front at the commit.
    pub fn prefix(&self) -> usize {
        self.prefix
    }

    /// Bytes still to come.
    pub fn remaining(&self) -> usize {
        self.len - self.place.filled()
    }

    pub fn is_full(&self) -> bool {
        self.remaining() == 0
    }

    /// False once the image has moved it aside.
    pub fn is_in_place(&self) -> bool {
        self.place.is_in_place()
    }

    /// What came so far. While it is looked at the image can't move it: don't hold it over an await.
    pub fn filled(&self) -> Filled<'_> {
        let state = self.place.0.borrow();
        let pinned = match &*state {
            State::InPlace { extent, at, filled } => Some(extent.pin(*at, *filled)),
            State::Aside(_) => None,
        };
        Filled { state, pinned }
    }

    /// Takes as many of `bytes` as still belong to it; returns how many.
    pub fn fill(&mut self, bytes: &[u8]) -> usize {
        let len = bytes.len().min(self.remaining());
        let mut from = &bytes[..len];
        while !from.is_empty() {
            let step = self
                .fill_with(|target| {
                    let step = target.len().min(from.len());
                    target[..step].copy_from_slice(&from[..step]);
                    Ok(step)
                })
                .expect("copying does not fail");
            from = &from[step..];
        }
        len
    }

    /// Lets `receive` (one `recv`) write into what is still empty; it returns how many bytes it wrote.
    pub fn fill_with(
        &mut self,
        receive: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let remaining = self.remaining();
        let mut state = self.place.0.borrow_mut();
        match &mut *state {
            State::InPlace { extent, at, filled } => {
                let count = extent.fill(*at + *filled, remaining, receive)?;
                assert!(count <= remaining, "{count} bytes into {remaining}");
                *filled += count;
                Ok(count)
            }
            State::Aside(bytes) => {
                let filled = bytes.len();
                bytes.resize(filled + remaining.min(ASIDE_STEP_BYTES), 0);
                let result = receive(&mut bytes[filled..]);
                let count = *result.as_ref().unwrap_or(&0);
                assert!(count <= remaining, "{count} bytes into {remaining}");
                bytes.truncate(filled + count);
                result
            }
        }
    }

    /// Moves what came to memory of its own and gives the end of the image free.
    pub fn set_aside(&self) {
        self.place.move_aside();
    }

    /// Gives the end of the image free; the bytes so far.
    pub fn move_aside(self) -> Vec<u8> {
        self.place.move_aside();
        match &mut *self.place.0.borrow_mut() {
            State::Aside(bytes) => std::mem::take(bytes),
            State::InPlace { .. } => unreachable!("just moved aside"),
        }
    }

    pub(super) fn place(&self) -> *const Place {
        Rc::as_ptr(&self.place)
    }
}

impl fmt::Debug for Receiving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiving")
            .field("prefix", &self.prefix)
            .field("len", &self.len)
            .field("filled", &self.place.filled())
            .field("in_place", &self.is_in_place())
            .finish()
    }
}

/// See [`Receiving::filled`].
pub struct Filled<'a> {
    state: Ref<'a, State>,
    pinned: Option<Pinned>,
}

impl Deref for Filled<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match (&self.pinned, &*self.state) {
            (Some(pinned), _) => pinned.bytes(),
            (None, State::Aside(bytes)) => bytes,
            (None, State::InPlace { .. }) => unreachable!("in place is pinned"),
        }
    }
}

impl Place {
    pub fn new(extent: Extent, at: usize) -> Place {
        Place(RefCell::new(State::InPlace {
            extent,
            at,
            filled: 0,
        }))
    }

    pub fn is_in_place(&self) -> bool {
        matches!(&*self.0.borrow(), State::InPlace { .. })
    }

    pub fn move_aside(&self) {
        let mut state = self.0.borrow_mut();
        if let State::InPlace { extent, at, filled } = &*state {
            let bytes = extent.pin(*at, *filled).bytes().to_vec();
            *state = State::Aside(bytes);
        }
    }

    fn filled(&self) -> usize {
        match &*self.0.borrow() {
            State::InPlace { filled, .. } => *filled,
            State::Aside(bytes) => bytes.len(),
        }
    }
}
