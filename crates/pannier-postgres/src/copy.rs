//! Rows in the binary format of `COPY`.

/// The beginning of the format: a signature, no flags, no extension.
const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// Rows for a table.
#[derive(Debug)]
pub(crate) struct Rows {
    bytes: Vec<u8>,
    columns: i16,
    pub(crate) count: u64,
}

impl Rows {
    pub(crate) fn new(columns: i16) -> Self {
        Self { bytes: HEADER.to_vec(), columns, count: 0 }
    }

    /// Starts a row. As many values as there are columns must follow.
    pub(crate) fn row(&mut self) -> &mut Self {
        self.bytes.extend_from_slice(&self.columns.to_be_bytes());
        self.count += 1;
        self
    }

    pub(crate) fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(&(value.len() as i32).to_be_bytes());
        self.bytes.extend_from_slice(value);
        self
    }

    pub(crate) fn text(&mut self, value: &str) -> &mut Self {
        self.bytes(value.as_bytes())
    }

    pub(crate) fn int(&mut self, value: i32) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    pub(crate) fn boolean(&mut self, value: bool) -> &mut Self {
        self.bytes(&[u8::from(value)])
    }

    /// Adds a vector of pgvector: the number of dimensions, a reserved number, and the components.
    pub(crate) fn vector(&mut self, value: &[i16]) -> &mut Self {
        let mut bytes = Vec::with_capacity(4 + 4 * value.len());
        bytes.extend_from_slice(&(value.len() as u16).to_be_bytes());
        bytes.extend_from_slice(&[0, 0]);
        value.iter().for_each(|number| bytes.extend_from_slice(&f32::from(*number).to_be_bytes()));
        self.bytes(&bytes)
    }

    /// Returns the whole text of the copy.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.bytes.extend_from_slice(&(-1_i16).to_be_bytes());
        self.bytes
    }
}

/// Returns a count as the database stores it. Larger ones do not occur: a document has fewer bytes.
pub(crate) fn int(number: impl TryInto<i32>) -> i32 {
    number.try_into().unwrap_or(i32::MAX)
}
