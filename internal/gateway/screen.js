// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Shows the screen of a VM. Whether a viewer only watches is decided by the server; this
// page asks for it, and shows it.

import RFB from "./core/rfb.js"

const watch = new URLSearchParams(location.search).has("watch")
const state = document.getElementById("state")
const socket = new URL("socket" + (watch ? "?watch" : ""), location.href)
socket.protocol = "wss:"

document.getElementById(watch ? "watch" : "control")?.remove()

function connect() {
  const rfb = new RFB(document.getElementById("screen"), socket.href, {shared: true, wsProtocols: ["binary"]})
  rfb.viewOnly = watch
  rfb.scaleViewport = true
  rfb.addEventListener("connect", () => { state.textContent = watch ? "you only watch" : "you control this screen" })
  rfb.addEventListener("disconnect", () => {
    state.textContent = "the connection has ended; trying again"
    setTimeout(connect, 2000)
  })
}

connect()
