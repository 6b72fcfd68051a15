package apifault

// Watches returns the number of open watches through the proxy.
func (p *Proxy) Watches() int {
	p.rules.Lock()
	defer p.rules.Unlock()
	return len(p.rules.streams)
}
