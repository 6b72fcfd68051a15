package apifault

// Watches is how many watches go through the proxy.
func (p *Proxy) Watches() int {
	p.rules.Lock()
	defer p.rules.Unlock()
	return len(p.rules.streams)
}
