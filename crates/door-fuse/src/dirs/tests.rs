use super::*;

/// Entries with their cookies, and a buffer that takes only so many.
struct Paper {
    entries: Vec<(u64, &'static str)>,
    room: usize,
    written: Vec<(u64, String)>,
}

impl Paper {
    fn new(entries: &[(u64, &'static str)], room: usize) -> Self {
        Self { entries: entries.to_vec(), room, written: Vec::new() }
    }

    fn write(&mut self, offset: u64, name: &str) -> bool {
        let full = self.written.len() == self.room;
        if !full {
            self.written.push((offset, name.to_owned()));
        }
        full
    }
}

impl Page for Paper {
    type Entry = (u64, &'static str);

    fn room(&self) -> usize {
        self.room - self.written.len()
    }

    async fn fetch(&self, cookie: u64, limit: usize) -> Result<Vec<Self::Entry>> {
        let mut after: Vec<_> = self.entries.iter().filter(|e| e.0 > cookie).copied().collect();
        // Those of one cookie stay together, as the engine has it.
        while after.len() > limit && after[limit - 1].0 != after[limit].0 {
            after.truncate(limit.max(after.len() - 1));
        }
        Ok(after)
    }

    fn cookie(entry: &Self::Entry) -> u64 {
        entry.0
    }

    async fn add_dots(&mut self, offset: u64, name: &str) -> Result<bool> {
        Ok(self.write(offset, name))
    }

    fn add(&mut self, offset: u64, entry: &Self::Entry) -> bool {
        self.write(offset, entry.1)
    }
}

/// Reads a directory to its end with buffers of `room` entries, of which the reader takes `taken`
/// before it asks again from the offset of the last one it took.
async fn read_all(entries: &[(u64, &'static str)], room: usize, taken: usize) -> Vec<String> {
    let (mut names, mut offset) = (Vec::new(), 0);
    for _ in 0..1000 {
        let mut page = Paper::new(entries, room);
        let nothing = fill(&mut page, offset).await.unwrap();
        assert_eq!(nothing, page.written.is_empty());
        if nothing {
            return names;
        }
        for (next, name) in page.written.into_iter().take(taken) {
            offset = next;
            names.push(name);
        }
    }
    panic!("a listing without an end: {names:?}");
}

const PLAIN: [(u64, &str); 5] = [(16, "a"), (40, "b"), (41, "c"), (900, "d"), (u64::MAX >> 1, "e")];

#[tokio::test]
async fn every_buffer_size_lists_everything_once() {
    for room in 1..9 {
        for taken in 1..=room {
            let names = read_all(&PLAIN, room, taken).await;
            assert_eq!(names, [".", "..", "a", "b", "c", "d", "e"], "room {room}, taken {taken}");
        }
    }
}

#[tokio::test]
async fn an_empty_directory_has_two_names() {
    assert_eq!(read_all(&[], 1, 1).await, [".", ".."]);
    assert_eq!(read_all(&[], 9, 9).await, [".", ".."]);
}

#[tokio::test]
async fn names_of_one_cookie_are_never_lost() {
    let entries = [(16, "a"), (40, "b"), (40, "c"), (40, "d"), (50, "e")];
    // A buffer that holds all of one cookie always gets on.
    for room in 3..9 {
        for taken in 3..=room {
            let mut names = read_all(&entries, room, taken).await;
            names.sort_unstable();
            names.dedup();
            assert_eq!(names, [".", "..", "a", "b", "c", "d", "e"], "room {room}, taken {taken}");
        }
    }
    assert_eq!(read_all(&entries, 9, 9).await, [".", "..", "a", "b", "c", "d", "e"]);
}

#[tokio::test]
async fn buffers_of_any_size_are_filled() {
    let entries: Vec<_> = (0..5000).map(|i| (16 + i, "x")).collect();
    for room in [52, 4000, 10_000] {
        let mut page = Paper::new(&entries, room);
        fill(&mut page, 0).await.unwrap();
        assert_eq!(page.written.len(), room.min(5002));
    }
}
