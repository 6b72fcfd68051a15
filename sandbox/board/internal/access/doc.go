// Package access decides who may see and do what on a web page that listens on this machine, or in a
// cluster.
//
// A page of another site can make a browser ask this server. Four things stand in its way: the Host
// must be one of ours, which a name that was bound anew to 127.0.0.1 is not; a request of another
// origin is refused; without the cookie of a session there are no data; and the cookie is SameSite,
// so that the browser does not send it along. What the page loads by itself, its code, is no secret:
// it is served to anybody whose Host is ours.
package access
