//! All that a stream of bytes yields, for comparison between ways of splitting it.
//!
//! Also compiled into the fuzz target.

use howdah_http1::{
    BodyDecoder, BodyEvent, FieldStore, Framing, Head, Limits, Reject, RequestDecoder, Version, decode_path,
};

/// What has become of the stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    Head(Request),
    /// The content of a body, or as much as came.
    Body(Vec<u8>),
    Reject(Reject),
    /// The input ended inside a head.
    NeedMore,
}

/// An owned copy of a head.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    pub method: String,
    pub target: String,
    pub authority: String,
    pub path: String,
    pub query: String,
    pub path_and_query: String,
    pub version: Version,
    pub framing: Framing,
    pub keep_alive: bool,
    pub upgrade: bool,
    pub expect_continue: bool,
    pub len: usize,
    pub fields: Vec<(String, String)>,
    pub decoded_path: Result<Vec<u8>, Reject>,
}

impl Request {
    fn of(head: &Head<'_>) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut path = Vec::new();
        Self {
            method: text(head.method),
            target: text(head.target),
            authority: text(head.authority),
            path: text(head.path),
            query: text(head.query),
            path_and_query: text(head.path_and_query),
            version: head.version,
            framing: head.framing,
            keep_alive: head.keep_alive,
            upgrade: head.upgrade,
            expect_continue: head.expect_continue,
            len: head.len,
            fields: head.fields().map(|field| (text(field.name), text(field.value))).collect(),
            decoded_path: decode_path(head.path, &mut path).map(|()| path),
        }
    }
}

/// Feeds `input` up to each of `cuts` in turn (ascending), then the rest, as a connection would.
pub fn transcript(input: &[u8], limits: &Limits, cuts: impl IntoIterator<Item = usize>) -> Vec<Event> {
    let mut connection = Connection {
        limits: *limits,
        events: Vec::new(),
        consumed: 0,
        decoder: RequestDecoder::new(limits),
        body: None,
        store: FieldStore::new(),
    };
    for cut in cuts.into_iter().chain([input.len()]) {
        if !connection.feed(&input[..cut]) {
            return connection.events;
        }
    }
    connection.events.push(connection.body.map_or(Event::NeedMore, |(_, data)| Event::Body(data)));
    connection.events
}

struct Connection {
    limits: Limits,
    events: Vec<Event>,
    consumed: usize,
    decoder: RequestDecoder,
    body: Option<(BodyDecoder, Vec<u8>)>,
    store: FieldStore,
}

impl Connection {
    /// False once the stream has been refused.
    fn feed(&mut self, received: &[u8]) -> bool {
        loop {
            let before = (self.consumed, self.body.is_some());
            let result = match self.body {
                None => self.head(&received[self.consumed..]),
                Some(_) => self.content(&received[self.consumed..]),
            };
            if let Err(reject) = result {
                self.events.extend(self.body.take().map(|(_, data)| Event::Body(data)));
                self.events.push(Event::Reject(reject));
                return false;
            }
            if before == (self.consumed, self.body.is_some()) {
                return true;
            }
        }
    }

    fn head(&mut self, input: &[u8]) -> Result<(), Reject> {
        let Some(head) = self.decoder.decode(input, &mut self.store)? else { return Ok(()) };
        self.consumed += head.len;
        self.body = Some((BodyDecoder::new(&head.framing, &self.limits), Vec::new()));
        self.events.push(Event::Head(Request::of(&head)));
        Ok(())
    }

    fn content(&mut self, input: &[u8]) -> Result<(), Reject> {
        let Some((decoder, content)) = &mut self.body else { return Ok(()) };
        match decoder.decode(input)? {
            BodyEvent::NeedMore { consumed } => {
                assert_eq!(consumed, input.len(), "NeedMore takes all of the input");
                self.consumed += consumed;
            }
            BodyEvent::Data { data, consumed } => {
                assert!(!data.is_empty(), "Data is never empty");
                content.extend_from_slice(data);
                self.consumed += consumed;
            }
            BodyEvent::End { consumed } => {
                assert!(decoder.is_done());
                self.consumed += consumed;
                let content = std::mem::take(content);
                self.body = None;
                self.events.push(Event::Body(content));
            }
        }
        Ok(())
    }
}
