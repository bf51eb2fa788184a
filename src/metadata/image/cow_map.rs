//! A map that is cheap to clone and to change a little: 64 shared buckets, of which a change copies one.
//! Owned by an image; clones share what did not change.
//! Always: equal maps hold equal entries, whatever their history.
//! Which maps there are is the image's.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

const BUCKETS: usize = 64;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CowMap<K: Ord, V> {
    buckets: Arc<Vec<Arc<BTreeMap<K, V>>>>,
    len: usize,
}

impl<K: Ord + Hash + Clone, V: Clone> Default for CowMap<K, V> {
    fn default() -> Self {
        CowMap {
            buckets: Arc::new(vec![Arc::default(); BUCKETS]),
            len: 0,
        }
    }
}

impl<K: Ord + Hash + Clone, V: Clone> CowMap<K, V> {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn get<Q: Ord + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.buckets[bucket_of(key)].get(key)
    }

    /// For changing in place; copies the bucket if another map shares it and has the key.
    pub fn get_mut<Q: Ord + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let index = bucket_of(key);
        if !self.buckets[index].contains_key(key) {
            return None;
        }
        self.bucket_mut(index).get_mut(key)
    }

    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let index = bucket_of(&key);
        let old = self.bucket_mut(index).insert(key, value);
        self.len += usize::from(old.is_none());
        old
    }

    pub fn remove<Q: Ord + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let index = bucket_of(key);
        if !self.buckets[index].contains_key(key) {
            return None;
        }
        let old = self.bucket_mut(index).remove(key);
        self.len -= usize::from(old.is_some());
        old
    }

    /// All entries, in an order that depends on the keys alone.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.buckets.iter().flat_map(|bucket| bucket.iter())
    }

    fn bucket_mut(&mut self, index: usize) -> &mut BTreeMap<K, V> {
        Arc::make_mut(&mut Arc::make_mut(&mut self.buckets)[index])
    }
}

/// Without a random key, so that equal maps iterate alike.
fn bucket_of<Q: Hash + ?Sized>(key: &Q) -> usize {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    (hasher.finish() % BUCKETS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_leaves_the_clone_alone_and_copies_one_bucket() {
        let mut map = CowMap::default();
        for key in 0..1000u32 {
            map.insert(key, key);
        }
        let before = map.clone();
        *map.get_mut(&7).unwrap() = 0;
        assert_eq!(map.remove(&8), Some(8));
        assert_eq!((map.len(), before.len()), (999, 1000));
        assert_eq!(before.get(&7), Some(&7));
        assert_eq!(before.get(&8), Some(&8));
        let shared = before.buckets.iter().zip(map.buckets.iter());
        let copied = shared.filter(|(a, b)| !Arc::ptr_eq(a, b)).count();
        assert!((1..=2).contains(&copied), "{copied}");
        assert_eq!(map.get_mut(&5000), None);
        assert_eq!(map.remove(&5000), None);
    }

    #[test]
    fn equal_whatever_the_history() {
        let mut forward = CowMap::default();
        let mut backward = CowMap::default();
        for key in 0..100u32 {
            forward.insert(key, ());
            backward.insert(99 - key, ());
        }
        backward.insert(200, ());
        assert_ne!(forward, backward);
        backward.remove(&200);
        assert_eq!(forward, backward);
        assert!(forward.iter().eq(backward.iter()));
    }
}
