//! Generates context folders of any size, with all forms of entries. The same seed gives the same folder.

/// A generator of numbers: xorshift64*.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit
    }
}

/// Syllables, of which words are made.
const SYLLABLES: [&str; 24] = [
    "ba", "ce", "di", "fo", "gu", "ka", "le", "mi", "no", "pu", "ra", "se", "ti", "vo", "zu",
    "lan", "mer", "tin", "gor", "sul", "bel", "dra", "fen", "qui",
];

/// Returns the word of a rank. Words of low rank occur often.
fn word(rank: usize) -> String {
    let (first, rest) = (rank % 24, rank / 24);
    let (second, third) = (rest % 24, rest / 24 % 24);
    format!("{}{}{}", SYLLABLES[first], SYLLABLES[second], SYLLABLES[third])
}

/// A writer of texts about a topic: half of the words are shared with all texts, a quarter with neighbouring topics.
struct Writer {
    random: Random,
}

impl Writer {
    fn word(&mut self, topic: usize) -> String {
        let rank = match self.random.below(8) {
            0..4 => self.random.below(60),
            4..6 => 60 + (topic / 10) * 6 + self.random.below(6),
            6 => 60 + self.random.below(900),
            _ => 2_000 + topic * 4 + self.random.below(4),
        };
        word(rank)
    }

    fn words(&mut self, topic: usize, count: usize) -> String {
        (0..count).map(|_| self.word(topic)).collect::<Vec<_>>().join(" ")
    }

    fn sentence(&mut self, topic: usize) -> String {
        let count = 8 + self.random.below(14);
        self.words(topic, count) + "."
    }

    fn paragraph(&mut self, topic: usize, sentences: usize) -> String {
        (0..sentences).map(|_| self.sentence(topic)).collect::<Vec<_>>().join(" ")
    }

    fn day(&mut self) -> String {
        format!("2026-{:02}-{:02}", 1 + self.random.below(11), 1 + self.random.below(28))
    }

    fn title(&mut self, topic: usize) -> String {
        let count = 4 + self.random.below(5);
        self.words(topic, count)
    }

    /// A decision or learning under a heading of one of the forms that people write.
    fn headed(&mut self, topic: usize, label: &str) -> String {
        let (day, title) = (self.day(), self.title(topic));
        let heading = match self.random.below(7) {
            0 | 1 => format!("## [{day}] {title}"),
            2 => format!("## ADR-{topic:03}: {title}"),
            3 => format!("## DEC-{topic:03} {title}"),
            4 => format!("### D-{topic:04} - {title}"),
            5 => format!("## {day} \u{2014} {title}"),
            _ => format!("## {title}"),
        };
        let context = 1 + self.random.below(3);
        let answer = 1 + self.random.below(2);
        let context = self.paragraph(topic, context);
        let answer = self.paragraph(topic, answer);
        let more = self.paragraph(topic, 1);
        match self.random.below(4) {
            0 => format!("{heading}\n\n{context}\n\n{answer}\n\n"),
            1 => format!("{heading}\n\n### Context\n\n{context}\n\n### {label}\n\n{answer}\n\n"),
            _ => format!(
                "{heading}\n\n**Status**: Accepted\n\n**Context**: {context}\n\n**{label}**: {answer}\n\n**More**: {more}\n\n"
            ),
        }
    }

    fn row(&mut self, topic: usize) -> String {
        let (day, title) = (self.day(), self.title(topic));
        format!("| {day} | {title} | {} |\n", self.sentence(topic))
    }
}

/// Returns the files of a folder with about this many entries, besides up to 1,000 tokens of rules.
pub(crate) fn folder(entries: usize, seed: u64) -> Vec<(&'static str, String)> {
    let mut writer = Writer { random: Random::new(seed) };
    let mut rules = "# Constitution\n\nThese rules always hold.\n\n".to_owned();
    let rule_bytes = 1_000 + writer.random.below(2_800);
    while rules.len() < rule_bytes {
        let topic = writer.random.below(entries);
        let sentence = writer.sentence(topic);
        rules += &match writer.random.below(6) {
            0 => format!("- [ ] {sentence}\n"),
            1 => format!("- {sentence}\n"),
            2 => format!("\n> {sentence}\n\n"),
            3 => format!("\n1. {sentence}\n\n"),
            4 => format!("\n| Rule |\n|---|\n| {sentence} |\n\n"),
            _ => format!("\n{sentence}\n\n"),
        };
    }
    let mut tasks = "# Tasks\n".to_owned();
    let mut conventions = "# Conventions\n\n".to_owned();
    let mut decisions = "# Decisions\n\n".to_owned();
    let mut learnings = "# Learnings\n\n<!-- never closed\n\n".to_owned();
    let (mut decision_rows, mut learning_rows) = (String::new(), String::new());
    let (mut deep_decisions, mut deep_learnings) = (String::new(), String::new());
    for topic in 0..entries {
        match topic % 8 {
            0 | 1 => {
                if topic % 24 == 0 {
                    let title = writer.words(topic, 3);
                    tasks += &format!("\n### Phase {}: {title} `#priority:medium`\n\n", topic / 24);
                }
                let text = writer.sentence(topic);
                tasks += &format!("- [ ] {text} #added:{}\n", writer.day());
                if writer.random.below(3) == 0 {
                    tasks += &format!("  {}\n", writer.paragraph(topic, 2));
                }
            }
            2 => {
                let sentence = writer.sentence(topic);
                conventions += &match writer.random.below(6) {
                    0 => format!("\n{sentence}\n\n"),
                    1 => format!("\n> {sentence}\n\n"),
                    2 => format!("\n1. {sentence}\n\n"),
                    3 => format!("\n| Rule |\n|---|\n| {sentence} |\n\n"),
                    _ => format!("- {sentence}\n"),
                }
            }
            3..=5 if topic % 31 == 3 => decision_rows += &writer.row(topic),
            // Headings of one level, as people write them.
            3..=5 => {
                let entry = writer.headed(topic, "Decision");
                let is_deep = entry.starts_with("###");
                *(if is_deep { &mut deep_decisions } else { &mut decisions }) += &entry;
            }
            _ if topic % 31 == 6 => learning_rows += &writer.row(topic),
            _ => {
                let entry = writer.headed(topic, "Lesson");
                let is_deep = entry.starts_with("###");
                *(if is_deep { &mut deep_learnings } else { &mut learnings }) += &entry;
            }
        }
    }
    let table = |rows: &str, name: &str| match rows {
        "" => String::new(),
        rows => format!("# Log\n\n| Date | {name} | Why |\n|---|---|---|\n{rows}"),
    };
    decisions += &format!("# More\n\n{deep_decisions}");
    learnings += &format!("# More\n\n{deep_learnings}");
    decisions += &table(&decision_rows, "Decision");
    learnings += &table(&learning_rows, "Lesson");
    vec![
        ("CONSTITUTION.md", rules),
        ("TASKS.md", tasks),
        ("CONVENTIONS.md", conventions),
        ("DECISIONS.md", decisions),
        ("LEARNINGS.md", learnings),
    ]
}
