// Browsers start no worker for a page that is read from the disk; this one lives in a hidden frame, so that search works.
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      this.onmessage = null;
      this.ready = new Promise(resolve => { frame.onload = () => resolve(frame.contentWindow); });
      window.__answer = data => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      };
      const load = "self.importScripts = (...urls) => urls.reduce((done, url) => done.then(() => new Promise(ok => {" +
        "const script = document.createElement('script'); script.src = url; script.onload = ok;" +
        "document.body.append(script); })), Promise.resolve());" +
        "self.postMessage = data => parent.__answer(data);";
      frame.srcdoc = "<html><body><script>" + load + "<\/script><script src=\"" + url + "\"><\/script></body></html>";
      document.body.append(frame);
    }
    postMessage(data) {
      this.ready.then(frame => frame.dispatchEvent(new frame.MessageEvent("message", { data })));
    }
    terminate() {}
  };
}
