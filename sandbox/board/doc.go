// Package board serves a web page of a whole platform, live and back in time: of a running sandbox,
// of any cluster with module controllers, or of a finished run.
//
// The server folds events by events.State, the one world that the judge uses too, and sends plain
// rows: the page applies them to tables and needs no knowledge of what they mean.
//
//	GET  /api/events       server-sent events: `snapshot` (Snapshot) first, then `changes` (Changes)
//	GET  /api/history      History: which chunks of the past there are
//	GET  /api/history/ID   one chunk: JSON lines, a Snapshot and then the Changes that follow it
//	GET  /api/why          ?kind=pod&namespace=default&name=biz1: Why
//	POST /api/actions/ID   an Action's parameters as a JSON object of strings: ActionResult
//	POST /api/session      {"token": "..."} of the opened URL, exchanged for a cookie
//
// An error is a Problem in JSON with an HTTP status: 401 without a session,
// 403 for a foreign Host or Origin or without the right, 404, 400 for bad parameters, 409 for what
// cannot be done now, 502 if the sandbox or the API refuses.
//
// The page is made by `go generate` (internal/bundle, which needs no Node): web/src/main.tsx and
// web/src/style.css become web/dist/app.js and app.css, and the files of web/static, index.html
// among them, are copied to web/dist. `preact`, `preact/hooks` and `preact/jsx-runtime` come from
// internal/bundle/preact, version 11.2.0; nothing else can be imported from outside web/src.
// index.html loads /app.js (a module) and /app.css; there is no inline code and no inline style,
// since the content security policy forbids both. The opened URL is /#token=TOKEN: the page posts
// the token to /api/session, and then takes it out of its address.
package board
