// Package access controls access to a web server that listens on this machine or in a cluster.
//
// A page of another site can make a browser send requests to this server. Four measures prevent this: the Host
// header must be an allowed name, which excludes other names that resolve to 127.0.0.1 (DNS rebinding);
// requests from other origins are rejected; data require a session cookie; and the cookie is SameSite, so that
// browsers do not send it in requests of other sites. The code of the page is public: it is served to every
// client that uses an allowed Host.
package access
