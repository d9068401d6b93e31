// Search in pages that are opened as files, where browsers start no workers: the worker's script
// runs in a hidden frame. The offline plugin would load such a file from elsewhere.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.frame = frame.contentWindow;
      const back = "postMessage = data => parent.postMessage(data, '*')";
      this.frame.document.write(`<script>${back}</script><script src="${url}"></script>`);
      this.frame.document.close();
      this.ready = new Promise((resolve) => (this.frame.onload = resolve));
      window.addEventListener("message", ({ source, data }) => {
        if (source === this.frame) this.dispatchEvent(new MessageEvent("message", { data }));
      });
    }
    postMessage(data) {
      this.ready.then(() => this.frame.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
