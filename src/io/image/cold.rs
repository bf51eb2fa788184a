//! Pieces of a file that were read back into the arena.
//! Owned by a `FileImage`.
//! Always: what is given out is exactly what was read; overlapping pieces hold the same bytes.
//! Which pieces to read, and how many to keep, is decided by the shard.

use std::cell::Cell;
use std::collections::BTreeMap;

use crate::base::MonoNs;
use crate::io::arena::Pinned;
use crate::io::clock;

#[derive(Default)]
pub(super) struct Cold {
    /// By position of the first byte.
    pieces: BTreeMap<u64, ColdPiece>,
}

struct ColdPiece {
    pinned: Pinned,
    used: Cell<MonoNs>,
}

impl Cold {
    pub fn insert(&mut self, position: u64, pinned: Pinned) {
        if pinned.is_empty() {
            return;
        }
        let longer_is_there = self
            .pieces
            .get(&position)
            .is_some_and(|old| old.pinned.len() >= pinned.len());
        if !longer_is_there {
            self.pieces.insert(
                position,
                ColdPiece {
                    pinned,
                    used: Cell::new(clock::mono()),
                },
            );
        }
    }

    pub fn slice(&self, position: u64, len_max: usize) -> Option<Pinned> {
        let (start, piece) = self.pieces.range(..=position).next_back()?;
        let from = usize::try_from(position - start).ok()?;
        let len = piece
            .pinned
            .len()
            .checked_sub(from)
            .filter(|&len| len > 0)?;
        piece.used.set(clock::mono());
        Some(piece.pinned.part(from, len.min(len_max)))
    }

    pub fn bytes(&self) -> usize {
        self.pieces
            .values()
            .map(|piece| piece.pinned.extent().len())
            .sum()
    }

    /// When each piece was last asked for, and its bytes.
    pub fn pieces(&self) -> impl Iterator<Item = (MonoNs, usize)> {
        self.pieces
            .values()
            .map(|piece| (piece.used.get(), piece.pinned.extent().len()))
    }

    pub fn evict(&mut self, used: MonoNs) -> usize {
        let before = self.bytes();
        self.pieces.retain(|_, piece| piece.used.get() > used);
        before - self.bytes()
    }
}
