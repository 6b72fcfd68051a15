// Package board serves a web page that shows the current and past state of a platform: of a running sandbox, of
// any cluster with module controllers, or of a finished run.
//
// The server applies events to an events.State, as the checks of scenarios do, and sends plain rows. The page
// stores the rows in tables and needs no knowledge of their meaning.
//
//	GET  /api/events       server-sent events: `snapshot` (Snapshot) first, then `changes` (Changes)
//	GET  /api/history      History: which chunks of the past there are
//	GET  /api/history/ID   one chunk: JSON lines, a Snapshot and then the Changes that follow it
//	GET  /api/why          ?kind=pod&namespace=default&name=biz1: Why
//	POST /api/actions/ID   an Action's parameters as a JSON object of strings: ActionResult
//	POST /api/session      {"token": "..."} of the opened URL, exchanged for a cookie
//
// An error is a Problem in JSON with an HTTP status: 400 for invalid parameters, 401 without a session, 403 for
// a wrong Host or Origin or without permission, 404, 409 for an action that is impossible now, 502 if the
// sandbox or the API server rejects the action.
//
// `go generate` builds the page with internal/bundle, which does not need Node.js: web/src/main.tsx and
// web/src/style.css become web/dist/app.js and app.css, and the files of web/static are copied to web/dist. The
// modules `preact`, `preact/hooks` and `preact/jsx-runtime` come from internal/bundle/preact, version 11.2.0;
// no other module outside web/src can be imported. index.html loads /app.js (a module) and /app.css. The
// content security policy forbids inline code and inline styles. The printed URL is /#token=TOKEN: the page
// posts the token to /api/session and removes it from the address.
package board
