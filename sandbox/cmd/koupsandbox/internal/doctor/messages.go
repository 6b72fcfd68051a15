package doctor

import "github.com/koupleless/koupsandbox/sandbox/internal/language"

// args holds the values of the placeholders in the text and the fix of a message.
type args = language.Args

// catalogue contains all messages of the package.
var catalogue language.Catalogue

// text adds a message to the catalogue, with its English and Chinese text.
func text(en, zh string) language.Text { return catalogue.Text(en, zh) }

// The names of the checks.
var (
	nameBinary    = text("binary {name}", "程序 {name}")
	nameProvider  = text("provider", "可用的 provider")
	nameEngine    = text("container engine", "容器引擎")
	nameTools     = text("tools", "工具")
	nameCompiler  = text("build from source", "从源码构建")
	nameDirectory = text("state directory", "状态目录")
	nameDisk      = text("free disk space", "磁盘空闲空间")
	nameMemory    = text("available memory", "可用内存")
	nameFiles     = text("open files", "打开文件数")
	namePorts     = text("loopback ports", "回环端口")
)

// The details and fixes of the checks.
var (
	quoted      = text("{value}", "{value}")
	msgNotFound = text("not found", "未找到")
	fixNotFound = text("put it in the directory of koupsandbox, or set KOUPSANDBOX_BIN to its directory",
		"放到 koupsandbox 所在的目录，或把 KOUPSANDBOX_BIN 设为它所在的目录")
	msgProviders = text("{embedded} is available; {existing} requires --context",
		"{embedded} 可用；{existing} 需要 --context")
	msgNoEmbedded = text("{embedded} requires {binary}", "{embedded} 需要 {binary}")
	fixNoEmbedded = text("install it, or use --provider existing with --context",
		"安装它，或使用 --provider existing 和 --context")
	msgNoEngine = text("not required; the provider {kind} is not available: {error}",
		"不是必需的；provider {kind} 不可用：{error}")
	msgEngine = text("the provider {kind} is available with the node image {image}",
		"provider {kind} 可用，节点镜像为 {image}")
	msgPrograms   = text("all programs are installed", "所需程序均已安装")
	msgMissing    = text("not installed: {names}", "未安装：{names}")
	fixMissing    = text("install with: {install}", "安装命令：{install}")
	msgNoCompiler = text("not required; to build from source, install {names}: {install}",
		"不是必需的；如要从源码构建，请安装 {names}：{install}")
	fixDirectory = text("choose a writable directory with --home or KOUPSANDBOX_HOME",
		"用 --home 或 KOUPSANDBOX_HOME 选择可写的目录")
	fixDisk = text("free {minimum} on the disk of the state directory, or choose another directory with --home",
		"在状态目录所在的磁盘上释放 {minimum}，或用 --home 选择另一个目录")
	fixMemory = text("stop other processes until {minimum} are available", "停止其他进程，直到有 {minimum} 可用")
	msgFiles  = text("limit {limit}: enough for {bases} bases, {serving} of which can serve modules at the same time",
		"上限 {limit}：足够 {bases} 个基座，其中 {serving} 个可以同时提供模块服务")
	fixFiles = text("raise the limit: ulimit -n 65536", "提高上限：ulimit -n 65536")
	msgPorts = text("processes can listen on 127.0.0.1", "进程可以监听 127.0.0.1")
	fixPorts = text("allow processes to listen on 127.0.0.1", "允许进程监听 127.0.0.1")
)
