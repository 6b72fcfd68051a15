package containers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	tcnetwork "github.com/testcontainers/testcontainers-go/network"

	"github.com/koupleless/koupsandbox/e2e/internal/mosquitto"
	"github.com/koupleless/koupsandbox/fakebase"
)

const (
	brokerPort, webPort, controlPort = "8883", "8080", "9090"
	// brokerHost and firstBase are the last numbers of addresses.
	brokerHost, firstBase = 10, 20
	// bases is how many there are.
	bases = 2
	// baseName is what they report, and modules select them by.
	baseName = "outside"
	// subnets is how many are tried, since others may have one.
	subnets = 20
	// answerTime is how long a request may take. Between containers of one machine it takes a
	// millisecond.
	answerTime = 2 * time.Second
)

// parts are the containers, and the network that they share.
type parts struct {
	network *testcontainers.DockerNetwork
	subnet  netip.Prefix
	images  []string
	broker  *part
	files   *mosquitto.Files
	bases   []*base
}

// part is a container whose address stays.
type part struct {
	*testcontainers.DockerContainer
	ip netip.Addr
}

// base is a simulated base that somebody runs by hand.
type base struct {
	*part
	name string // identity and host name
	http *http.Client
}

// address is one in the subnet.
func (p *parts) address(last byte) netip.Addr {
	a := p.subnet.Addr().As4()
	a[3] = last
	return netip.AddrFrom4(a)
}

// makeNetwork makes a network with a subnet of its own: an address can be asked for only there.
func (p *parts) makeNetwork(ctx context.Context) error {
	var errs []error
	for range subnets {
		p.subnet = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 213, byte(rand.IntN(256)), 0}), 24)
		made, err := tcnetwork.New(ctx, tcnetwork.WithIPAM(&network.IPAM{Config: []network.IPAMConfig{{Subnet: p.subnet}}}))
		if err == nil {
			p.network = made
			return nil
		}
		errs = append(errs, err)
	}
	return fmt.Errorf("making a network: %w", errors.Join(errs...))
}

// run starts a container at an address.
func (p *parts) run(ctx context.Context, image string, ip netip.Addr, options ...testcontainers.ContainerCustomizer) (*part, error) {
	c, err := testcontainers.Run(ctx, image, append(options, tcnetwork.WithNetwork(nil, p.network),
		testcontainers.WithEndpointSettingsModifier(func(s map[string]*network.EndpointSettings) {
			s[p.network.Name].IPAMConfig = &network.EndpointIPAMConfig{IPv4Address: ip}
		}))...)
	if err != nil {
		return nil, fmt.Errorf("starting a container of %s: %w", image, err)
	}
	return &part{c, ip}, nil
}

func (p *parts) startBroker(ctx context.Context) error {
	if err := p.makeNetwork(ctx); err != nil {
		return err
	}
	image, err := mosquittoImage(ctx)
	if err != nil {
		return err
	}
	folder := filepath.Join(home, ".mosquitto")
	if err := os.Mkdir(folder, 0o700); err != nil {
		return fmt.Errorf("making a folder for mosquitto: %w", err)
	}
	ip := p.address(brokerHost)
	if p.files, err = mosquitto.Write(folder, "0.0.0.0:"+brokerPort, []string{ip.String()}, brokerFolder, "root"); err != nil {
		return err
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("reading mosquitto's files: %w", err)
	}
	var files []testcontainers.ContainerFile
	for _, e := range entries {
		files = append(files, testcontainers.ContainerFile{HostFilePath: filepath.Join(folder, e.Name()),
			ContainerFilePath: brokerFolder + "/" + e.Name(), FileMode: 0o644})
	}
	p.broker, err = p.run(ctx, image, ip, testcontainers.WithFiles(files...),
		testcontainers.WithEntrypoint(brokerProgram), testcontainers.WithCmd("-c", brokerFolder+"/mosquitto.conf"))
	if err != nil {
		return err
	}
	return reachable(ctx, net.JoinHostPort(ip.String(), brokerPort))
}

// reachable waits until somebody listens.
func reachable(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", addr, err)
		}
	}
}

// startBases starts the bases, which join the environment as those of anybody would.
func (p *parts) startBases(ctx context.Context, env string) error {
	image, err := baseImage(ctx)
	if err != nil {
		return err
	}
	password, err := os.ReadFile(p.files.Passwords[mosquitto.User])
	if err != nil {
		return fmt.Errorf("reading the password for the broker: %w", err)
	}
	for i := range bases {
		name, ip := fmt.Sprintf("outside-%d", i+1), p.address(byte(firstBase+i))
		c, err := p.run(ctx, image, ip,
			testcontainers.WithFiles(testcontainers.ContainerFile{HostFilePath: p.files.CAFile, ContainerFilePath: "/ca.crt", FileMode: 0o644}),
			testcontainers.WithEnv(map[string]string{
				"FAKEBASE_MQTT": "ssl://" + p.files.Addr, "FAKEBASE_MQTT_CA": "/ca.crt",
				"FAKEBASE_MQTT_USERNAME": mosquitto.User, "FAKEBASE_MQTT_PASSWORD": string(password),
				"FAKEBASE_ENV": env, "FAKEBASE_NAME": baseName, "FAKEBASE_IDENTITY": name, "FAKEBASE_HOST_NAME": name, "FAKEBASE_IP": ip.String(),
				"FAKEBASE_ACTIVATION": "new", "FAKEBASE_WEB": "true", "FAKEBASE_WEB_ADDR": "0.0.0.0:" + webPort, "FAKEBASE_CONTROL": "0.0.0.0:" + controlPort,
			}))
		if err != nil {
			return err
		}
		p.bases = append(p.bases, &base{c, name, &http.Client{Timeout: answerTime, Transport: &http.Transport{DisableKeepAlives: true}}})
	}
	return nil
}

// end removes everything, the images too, and says what has stayed.
func (p *parts) end(ctx context.Context) error {
	parts := []*part{p.broker}
	for _, b := range p.bases {
		parts = append(parts, b.part)
	}
	var errs []error
	for _, c := range parts {
		if c != nil {
			errs = append(errs, c.Terminate(ctx, testcontainers.StopTimeout(0)))
		}
	}
	if p.network != nil {
		errs = append(errs, p.network.Remove(ctx))
	}
	for _, image := range p.images {
		_, err := engine.Client().ImageRemove(ctx, image, client.ImageRemoveOptions{Force: true, PruneChildren: true})
		errs = append(errs, err)
	}
	return errors.Join(append(errs, nothingIsLeft(ctx))...)
}

// nothingIsLeft looks for what bears the label of this run.
func nothingIsLeft(ctx context.Context) error {
	labels := make(client.Filters)
	for name, value := range testcontainers.GenericLabels() {
		labels.Add("label", name+"="+value)
	}
	containers, err := engine.Client().ContainerList(ctx, client.ContainerListOptions{All: true, Filters: labels})
	if err != nil {
		return fmt.Errorf("looking for what is left: %w", err)
	}
	networks, err := engine.Client().NetworkList(ctx, client.NetworkListOptions{Filters: labels})
	if err != nil {
		return fmt.Errorf("looking for what is left: %w", err)
	}
	if len(containers.Items)+len(networks.Items) > 0 {
		return fmt.Errorf("left are the containers %v and the networks %v", containers.Items, networks.Items)
	}
	return nil
}

// disconnect takes a container off the network.
func (c *part) disconnect(ctx context.Context) error {
	_, err := engine.Client().NetworkDisconnect(ctx, all.network.ID, client.NetworkDisconnectOptions{Container: c.GetContainerID()})
	return err
}

// connect puts it back, with its address.
func (c *part) connect(ctx context.Context) error {
	_, err := engine.Client().NetworkConnect(ctx, all.network.ID, client.NetworkConnectOptions{Container: c.GetContainerID(),
		EndpointConfig: &network.EndpointSettings{IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: c.ip}}})
	return err
}

func (c *part) pause(ctx context.Context) error {
	_, err := engine.Client().ContainerPause(ctx, c.GetContainerID(), client.ContainerPauseOptions{})
	return err
}

func (c *part) unpause(ctx context.Context) error {
	_, err := engine.Client().ContainerUnpause(ctx, c.GetContainerID(), client.ContainerUnpauseOptions{})
	return err
}

func (c *part) kill(ctx context.Context) error {
	_, err := engine.Client().ContainerKill(ctx, c.GetContainerID(), client.ContainerKillOptions{Signal: "KILL"})
	return err
}

func (c *part) start(ctx context.Context) error {
	_, err := engine.Client().ContainerStart(ctx, c.GetContainerID(), client.ContainerStartOptions{})
	return err
}

// ask sends a request to a port of the container and reads the answer, which is JSON.
func (b *base) ask(ctx context.Context, port, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(b.ip.String(), port)+path, nil)
	if err != nil {
		return err
	}
	response, err := b.http.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // what counts has been read
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s: %s", b.name, response.Status, body)
	}
	return json.Unmarshal(body, into)
}

// version asks a module in the container which version it is.
func (b *base) version(ctx context.Context, module string) (string, error) {
	var answer struct {
		Version string `json:"version"`
	}
	err := b.ask(ctx, webPort, "/"+module, &answer)
	return answer.Version, err
}

// history is the life of the module in the container so far: an installation adds to it.
func (b *base) history(t *testing.T, module string) string {
	t.Helper()
	var status fakebase.Status
	must(t, b.ask(t.Context(), controlPort, "/bases/"+b.name, &status))
	var lines []string
	for _, biz := range status.Biz {
		if biz.Name != module {
			continue
		}
		for _, r := range biz.Records {
			lines = append(lines, fmt.Sprintf("%s %s %s", biz.ID(), r.ChangeTime.Format(time.RFC3339Nano), r.State))
		}
	}
	return strings.Join(lines, "\n")
}
