//! The one writer to a child's stdin: whole frames in order, never in the way of the reader.

use std::sync::{Arc, Mutex};

use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Frames are answers to lines the child wrote and one prompt, so their number is bounded by what it sends;
/// a child that floods requests without reading answers stops at the pipe of its own stdout, because its
/// lines are read only as fast as the messages they give are taken.
pub struct Writer {
    frames: Option<mpsc::UnboundedSender<Vec<u8>>>,
    error: Arc<Mutex<Option<String>>>,
    task: JoinHandle<()>,
}

impl Writer {
    pub fn start(mut stdin: ChildStdin) -> Self {
        let (frames, mut queue) = mpsc::unbounded_channel::<Vec<u8>>();
        let error = Arc::new(Mutex::new(None));
        let slot = error.clone();
        let task = tokio::spawn(async move {
            while let Some(frame) = queue.recv().await {
                let written = async {
                    stdin.write_all(&frame).await?;
                    stdin.flush().await
                };
                if let Err(e) = written.await {
                    *slot.lock().unwrap_or_else(|e| e.into_inner()) = Some(e.to_string());
                    return;
                }
            }
            // Dropping stdin is the end of file for the child.
        });
        Writer { frames: Some(frames), error, task }
    }

    pub fn write(&self, frame: Vec<u8>) {
        if let Some(frames) = &self.frames {
            // A failed writer has recorded its error; frames after it have nowhere to go.
            let _ = frames.send(frame);
        }
    }

    /// End of file once everything before is written.
    pub fn close(&mut self) {
        self.frames = None;
    }

    /// End of file now, also when a write is blocked on a full pipe.
    pub fn abort(&mut self) {
        self.frames = None;
        self.task.abort();
    }

    pub fn error(&self) -> Option<String> {
        self.error.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.task.abort();
    }
}
