// Where the weights come from: on the website a file that is loaded when the reader asks, in a notebook the kernel.

/** Bytes of a file that is a script: it works on pages opened from a file too, and where policy allows no fetch. */
function loadScript(name, address) {
  const left = () => globalThis.attnlabFiles?.[name];
  return new Promise((resolve, reject) => {
    const script = element("script", { src: address });
    const settle = (done) => () => {
      script.remove();
      done();
    };
    script.addEventListener("error", settle(() => reject(new Error(`${address} was not found`))), { once: true });
    script.addEventListener(
      "load",
      settle(() => (left() ? resolve(left()) : reject(new Error(`${address} holds no file`)))),
      { once: true },
    );
    document.head.append(script);
  })
    .then((text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)))
    .finally(() => delete globalThis.attnlabFiles?.[name]);
}

/** The kernel's answer to a wish for the weights. `ended` is told how to stop waiting. */
function askKernel(model, ended) {
  return new Promise((resolve) => {
    const receive = (message, buffers) => {
      if (message?.kind !== "weights" || !buffers?.length) return;
      stop();
      const { buffer, byteOffset, byteLength } = buffers[0].buffer ? buffers[0] : new DataView(buffers[0]);
      resolve(new Uint8Array(buffer, byteOffset, byteLength));
    };
    const stop = () => model.off("msg:custom", receive);
    ended(stop);
    model.on("msg:custom", receive);
    model.send({ kind: "weights" });
  });
}
