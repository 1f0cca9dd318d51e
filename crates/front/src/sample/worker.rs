//! For tests: a worker of an application, which does by the same functions what workers do.

use std::sync::atomic::Ordering::Relaxed;

use howdah_wire::queue::Claim;
use howdah_wire::{
    Answer, LENGTH_UNKNOWN, Outgoing, RESPONSE_BROKEN, RESPONSE_CLOSE, RESPONSE_DETACHED, RESPONSE_FAILED,
    RESPONSE_HEAD_READY, RESPONSE_REDIRECT, RequestReader, Segment,
};

/// A worker that claims requests of a segment, one at a time.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) number: u16,
    segment: SegmentBox,
}

struct SegmentBox(Segment);

impl std::fmt::Debug for SegmentBox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Segment")
    }
}

/// A request that a worker has, and what it has said of the response.
#[derive(Debug)]
pub(crate) struct Claimed {
    pub(crate) claim: Claim,
    /// REQUEST_URI.
    pub(crate) target: String,
    /// CONTENT_LENGTH; empty for none.
    pub(crate) content_length: String,
    /// What a local redirect and its request differ in.
    told: String,
    response: Outgoing,
}

impl Worker {
    pub(crate) fn new(number: u16, segment: Segment) -> Self {
        segment.workers()[usize::from(number)].start(1000 + u32::from(number), howdah_sys::monotonic_ns());
        Self { number, segment: SegmentBox(segment) }
    }

    fn segment(&self) -> Segment {
        self.segment.0
    }

    /// Claims a request without beginning it.
    pub(crate) fn claim(&self) -> Option<Claimed> {
        let segment = self.segment();
        let claim = segment.queue().claim(self.number)?;
        let control = &segment.controls()[claim.slot as usize];
        segment.workers()[usize::from(self.number)].enter(claim.slot, control, howdah_sys::monotonic_ns());
        let request = segment.peek_request(claim.slot, self.number).expect("what was claimed");
        let words = RequestReader::new(&request);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("plain words");
        let content_length = text(words.field(b"CONTENT_LENGTH").unwrap_or_default());
        let field = |name: &[u8]| text(words.field(name).unwrap_or(b"-"));
        let fields =
            [&b"REDIRECT_URL"[..], b"REDIRECT_STATUS", b"CONTENT_TYPE", b"HTTP_COOKIE", b"HTTP_X_REQUEST_ID"];
        let told = fields.map(field).join(" ");
        Some(Claimed {
            claim,
            told: format!("{} {} {} {told}", text(words.method()), text(words.path()), text(words.query())),
            target: text(words.uri()),
            content_length,
            response: Outgoing::new(claim.ticket),
        })
    }

    /// Is about to call the application.
    pub(crate) fn begin(&self, claimed: &Claimed) {
        self.segment().controls()[claimed.claim.slot as usize].begin();
    }

    /// Writes into the response's ring.
    pub(crate) fn write(&self, claimed: &mut Claimed, bytes: &[u8]) -> usize {
        self.segment().produce(claimed.claim.slot, &mut claimed.response, bytes)
    }

    /// Says that the head is there, of which the lines have been written.
    pub(crate) fn say(&self, claimed: &mut Claimed, answer: Answer) {
        let control = &self.segment().controls()[claimed.claim.slot as usize];
        claimed.response.set_head(control, answer);
    }

    pub(crate) fn flag(&self, claimed: &mut Claimed, flags: u32) {
        let control = &self.segment().controls()[claimed.claim.slot as usize];
        claimed.response.add_flags(control, flags);
    }

    /// Says that it has sent so much more by itself.
    pub(crate) fn sent(&self, claimed: &mut Claimed, length: u64) {
        let control = &self.segment().controls()[claimed.claim.slot as usize];
        claimed.response.sent(control, length);
    }

    /// News of the slot.
    pub(crate) fn tell(&self, claimed: &Claimed) {
        let slot = claimed.claim.slot;
        let _ = self.segment().front_of(slot).tell(slot);
    }

    /// Whether nobody waits for the response any more.
    pub(crate) fn is_abandoned(&self, claimed: &Claimed) -> bool {
        self.segment().controls()[claimed.claim.slot as usize].abandoned.load(Relaxed) != 0
    }

    /// Is through with it.
    pub(crate) fn finish(&self, mut claimed: Claimed) {
        let segment = self.segment();
        let control = &segment.controls()[claimed.claim.slot as usize];
        claimed.response.close(control);
        control.finished_at.store(howdah_sys::monotonic_ns(), Relaxed);
        let _ = segment.queue().finish(claimed.claim, self.number);
        segment.workers()[usize::from(self.number)].finished();
        self.tell(&claimed);
    }

    /// Answers a request by its target, see [`Self::respond`]. False when none waits.
    pub(crate) fn serve(&self) -> bool {
        let Some(claimed) = self.claim() else { return false };
        self.respond(claimed);
        true
    }

    /// What each target stands for; a plain one has a whole response that says it.
    pub(crate) fn respond(&self, mut claimed: Claimed) {
        self.begin(&claimed);
        let target = claimed.target.clone();
        if let Some(path) = target.strip_prefix("/to:") {
            return self.redirect(claimed, path.as_bytes());
        }
        let told = claimed.told.clone();
        let (status, length, flags, body): (u32, u64, u32, &[u8]) = match target.as_str() {
            env if env.starts_with("/env") => (200, LENGTH_UNKNOWN, 0, told.as_bytes()),
            "/given" => (200, 4, 0, b"four"),
            "/short" => (200, 9, 0, b"four"),
            "/long" => (200, 2, 0, b"four"),
            "/empty" => (204, LENGTH_UNKNOWN, 0, b""),
            "/unchanged" => (304, 7, 0, b""),
            "/close" => (200, LENGTH_UNKNOWN, RESPONSE_CLOSE, b"bye"),
            "/broken" => (200, LENGTH_UNKNOWN, RESPONSE_BROKEN, b"half"),
            "/odd" => (99, LENGTH_UNKNOWN, 0, b""),
            "/fail" => return self.end_with(claimed, RESPONSE_FAILED),
            "/detached" => return self.end_with(claimed, RESPONSE_DETACHED),
            "/silent" => return self.finish(claimed),
            other => (200, LENGTH_UNKNOWN, 0, other.as_bytes()),
        };
        self.head(&mut claimed, status, length, flags);
        self.write(&mut claimed, body);
        self.finish(claimed);
    }

    /// Names another path, as the host of CGI scripts does.
    pub(crate) fn redirect(&self, mut claimed: Claimed, path: &[u8]) {
        self.write(&mut claimed, path);
        let (flags, head_length) = (RESPONSE_HEAD_READY | RESPONSE_REDIRECT, path.len() as u32);
        self.say(&mut claimed, Answer { status: 302, flags, head_length, ..Answer::default() });
        self.finish(claimed);
    }

    /// One field, and what is said of the response.
    pub(crate) fn head(&self, claimed: &mut Claimed, status: u32, content_length: u64, flags: u32) {
        const LINES: &[u8] = b"X-App: yes\r\n";
        self.write(claimed, LINES);
        let (flags, head_length) = (flags | RESPONSE_HEAD_READY, LINES.len() as u32);
        self.say(claimed, Answer { status, content_length, flags, head_length, ..Answer::default() });
    }

    fn end_with(&self, mut claimed: Claimed, flags: u32) {
        self.flag(&mut claimed, flags);
        self.finish(claimed);
    }
}
