#include "service/controller/controller_service.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "io/clock.h"
#include "io/files/file.h"
#include "io/files/private_files.h"
#include "io/log/log.h"
#include "service/controller/submission/machine_facts.h"
#include "service/controller/submission/submission.h"
#include "service/controller/token.h"
#include "service/notify/hook_file.h"
#include "service/security/secret.h"
#include "service/trainer_program.h"
#include "spec/queue/controller_file.h"

namespace longhaul::service {
namespace {

constexpr uint64_t kLargestConfiguration = 1 << 20;
constexpr Duration kLeavingPoll = std::chrono::milliseconds(20);
// When the controller stops, the hooks may send for this long what is queued.
constexpr Duration kHookLimit = std::chrono::seconds(5);

// The address others connect to, with the port in use.
// Port 0 in the options means any free port, so the address that others use is known only after the
// socket listens.
std::string WithPort(const std::string& address, uint16_t port) {
  return address.substr(0, address.rfind(':') + 1) + std::to_string(port);
}

// The address at which a program on this machine reaches one that listens on all addresses.
std::string Reachable(const std::string& address) {
  const size_t colon = address.rfind(':');
  const std::string host = address.substr(0, colon);
  return host == "0.0.0.0" || host == "[::]" ? "localhost" + address.substr(colon) : address;
}

// The files of TLS: those that the configuration names, else those that init made; nothing if there
// are none.
Result<std::optional<TlsPaths>> FindTls(const std::string& configuration,
                                        const std::string& config_file,
                                        const std::string& directory) {
  ASSIGN_OR_RETURN(const spec::ControllerSpec file,
                   spec::ParseControllerFile(configuration, config_file));
  if (!file.tls.certificate.empty()) {
    const std::filesystem::path base = std::filesystem::path(config_file).parent_path();
    return std::optional(
        TlsPaths{base / file.tls.certificate, base / file.tls.key, base / file.tls.ca});
  }
  const TlsPaths own = OwnTlsPaths(directory);
  if (std::filesystem::exists(own.certificate)) return std::optional(own);
  return std::optional<TlsPaths>();
}

// The configuration file and the cluster file that it names, checked.
Result<proto::SchedulingConfiguration> ReadConfiguration(const std::string& path) {
  proto::SchedulingConfiguration configuration;
  if (path.empty()) return configuration;
  ASSIGN_OR_RETURN(const std::string text, io::ReadText(path, kLargestConfiguration));
  ASSIGN_OR_RETURN(const spec::ControllerSpec file, spec::ParseControllerFile(text, path));
  configuration.set_text(text);
  if (!file.cluster_file.empty()) {
    const std::filesystem::path cluster =
        std::filesystem::path(path).parent_path() / file.cluster_file;
    ASSIGN_OR_RETURN(const std::string nodes,
                     io::ReadText(cluster.string(), kLargestConfiguration));
    configuration.set_cluster_text(nodes);
  }
  const Status usable = runtime::Controller::CheckConfiguration(configuration);
  if (!usable.ok()) return usable.WithContext(path);
  return configuration;
}

// Agents and clients are given the addresses of all controllers before one of them leads.
Status CheckSharedAddresses(const ControllerServiceOptions& options) {
  for (const auto& [name, text] :
       {std::pair{"--rest", options.rest}, std::pair{"--agents", options.agents}}) {
    ASSIGN_OR_RETURN(const HostPort address, ParseHostPort(text));
    if (address.port != 0) continue;
    return InvalidArgument(std::string(name) + " " + text +
                           " has port 0, but agents and clients have to know the addresses of all "
                           "controllers that share a log: choose a port");
  }
  return Status();
}

// What all controllers of a cluster must have in common: an agent or a client that one of them has
// accepted must be accepted by the next one.
Result<std::string> SecretsFingerprint(const std::string& token, const std::string& directory,
                                       const std::optional<ServerTls>& tls) {
  if (!tls) return HashOf(token);
  ASSIGN_OR_RETURN(const CertificateAndKey authority, AgentAuthority(directory, io::Now()));
  ASSIGN_OR_RETURN(const std::string peer_secret, PeerSecret(directory));
  return HashOf(token + "\n" + tls->ca + "\n" + authority.certificate + "\n" + peer_secret);
}

// Of a controller that had its log in the state directory before.
void WarnOfUnusedFiles(const std::string& directory) {
  for (const char* name : {"events.db", "tokens.json", "join-tokens.json"}) {
    if (!std::filesystem::exists(directory + "/" + name)) continue;
    io::LogWarning("controller", directory + "/" + name +
                                     " is not used with --log: its content is in the database");
  }
}

void WarnOfOpenDirectory(const std::string& path) {
  const std::string warning = io::WarningOfOpenDirectory(path);
  if (!warning.empty()) io::LogWarning("controller", warning);
}

}  // namespace

Result<std::unique_ptr<ControllerService>> ControllerService::Start(
    const ControllerServiceOptions& options) {
  std::error_code unknown;
  const bool is_new = !std::filesystem::exists(options.state_directory, unknown) && !unknown;
  std::unique_ptr<ControllerService> service(new ControllerService());
  const Status opened = service->Open(options);
  if (opened.ok()) return service;
  // One that was refused, for a port in use perhaps, leaves nothing behind. The log is locked, so
  // that no other controller can have begun to use the new directory.
  const bool owned = service->log_ != nullptr && service->shared_log_ == nullptr;
  if (is_new && owned) {
    service->Stop();
    std::filesystem::remove_all(options.state_directory, unknown);
  }
  return opened;
}

Status ControllerService::Open(const ControllerServiceOptions& options) {
  ASSIGN_OR_RETURN(proto::SchedulingConfiguration configuration,
                   ReadConfiguration(options.config_file));
  ASSIGN_OR_RETURN(const std::vector<spec::HookSpec> hooks, ReadHookFile(options.notify_file));
  if (const Status made = io::PosixFileSystem().MakeDirectories(options.state_directory);
      !made.ok()) {
    return Status(made.code(), made.message() + "; name another place with --state-dir");
  }
  WarnOfOpenDirectory(options.state_directory);
  std::error_code error;
  const std::string directory = std::filesystem::absolute(options.state_directory, error).string();
  if (error) return InternalError("no absolute path of " + options.state_directory);
  endpoint_path_ = directory + "/endpoint.json";
  RETURN_IF_ERROR(OpenToken(options, directory));
  audit_ = std::make_unique<AuditLog>(directory + "/audit.log", AuditLog::Limits());
  RETURN_IF_ERROR(audit_->Open());
  ASSIGN_OR_RETURN(std::optional<ServerTls> tls, LoadTls(options, directory));
  RETURN_IF_ERROR(OpenLog(options, directory, tls));
  feed_ = std::make_unique<NotificationFeed>(*log_);
  CoreLoopOptions loop_options;
  loop_options.scheduling = std::move(configuration);
  loop_options.core = options.core;
  loop_options.violation_path = directory + "/violation.txt";
  loop_options.kill_controller = options.kill_controller;
  loop_options.on_violation = options.on_violation;
  loop_options.on_lost = options.shared_log.standby.on_lost;
  StartHooks(hooks);
  if (hooks_ != nullptr) {
    loop_options.notify = [this](const proto::Notification& each) { hooks_->Take(each); };
  }
  // The order of the parts: the log is replayed before anything listens, the servers exist before
  // the loop runs, and the endpoint file is written last, when requests are answered.
  loop_options.check_nodes = [this](const runtime::NodeCheckOrder& order) { CheckJob(order); };
  ASSIGN_OR_RETURN(loop_, CoreLoop::Create(loop_options, *log_, *feed_));

  if (shared_log_ != nullptr) RETURN_IF_ERROR(StandBy(options));
  RETURN_IF_ERROR(OpenTables(options, directory, std::move(tls)));
  RETURN_IF_ERROR(StartGateway(options));
  RETURN_IF_ERROR(StartRest(options, directory));
  loop_->Start(*gateway_);

  endpoint_.rest = (admission_ == nullptr ? "http://" : "https://") +
                   WithPort(Reachable(options.rest), rest_->port());
  endpoint_.agents = WithPort(Reachable(options.agents), gateway_->port());
  if (admission_ != nullptr) endpoint_.ca_file = admission_->server().ca_file;
  endpoint_.pid = ::getpid();
  endpoint_.file = endpoint_path_;
  return WriteEndpoint(endpoint_path_, endpoint_);
}

Status ControllerService::OpenToken(const ControllerServiceOptions& options,
                                    const std::string& directory) {
  endpoint_.token_file = options.token_file.empty()
                             ? directory + "/token"
                             : std::filesystem::absolute(options.token_file).string();
  ASSIGN_OR_RETURN(endpoint_.token, ReadOrMakeToken(endpoint_.token_file));
  return Status();
}

Status ControllerService::OpenLog(const ControllerServiceOptions& options,
                                  const std::string& directory,
                                  const std::optional<ServerTls>& tls) {
  if (options.shared_log.address.empty()) {
    ASSIGN_OR_RETURN(log_, EventLog::Open(directory + "/events.db"));
    return Status();
  }
  RETURN_IF_ERROR(CheckSharedAddresses(options));
  ASSIGN_OR_RETURN(const PostgresAddress address,
                   PostgresAddress::Parse(options.shared_log.address));
  ASSIGN_OR_RETURN(const std::string secrets, SecretsFingerprint(endpoint_.token, directory, tls));
  WarnOfUnusedFiles(directory);
  ASSIGN_OR_RETURN(auto log, PostgresLog::Open(address, secrets));
  LeadershipOptions leadership;
  leadership.address = address;
  leadership.lease = options.shared_log.lease;
  leadership.holder = HolderName();
  leadership.rest = options.rest;
  leadership.agents = options.agents;
  leadership_ = std::make_unique<Leadership>(std::move(leadership));
  shared_log_ = log.get();
  log_ = std::move(log);
  return Status();
}

// The loop has no thread yet, so that the core is stepped by this one.
Status ControllerService::StandBy(const ControllerServiceOptions& options) {
  ASSIGN_OR_RETURN(term_,
                   AwaitLeadership(options.shared_log.standby, *leadership_, *shared_log_, *loop_));
  feed_->StartAtEndOfLog();
  return Status();
}

Status ControllerService::OpenTables(const ControllerServiceOptions& options,
                                     const std::string& directory, std::optional<ServerTls> tls) {
  const auto document = [this, directory](const std::string& name) {
    return shared_log_ != nullptr
               ? shared_log_->Document(name)
               : std::unique_ptr<SecretDocument>(new SecretFile(directory + "/" + name));
  };
  ASSIGN_OR_RETURN(tokens_, TokenStore::Open(document("tokens.json"), endpoint_.token));
  if (!tls) return Status();
  AgentAdmissionOptions admission;
  admission.directory = directory;
  admission.external = options.external;
  admission.server = *std::move(tls);
  admission.join_tokens = [document] { return document("join-tokens.json"); };
  ASSIGN_OR_RETURN(admission_, AgentAdmission::Open(admission, *audit_, io::Now()));
  return Status();
}

Status ControllerService::StartRest(const ControllerServiceOptions& options,
                                    const std::string& directory) {
  RestServerOptions rest_options;
  rest_options.address = options.rest;
  rest_options.behind_proxy = options.behind_proxy;
  rest_options.admission = admission_.get();
  rest_options.checks = checks_.get();
  rest_options.planner = options.planner.empty() ? FindPlanner() : options.planner;
  rest_options.external = options.external;
  PrepareJob prepare = options.prepare;
  if (!prepare) {
    auto submission =
        std::make_shared<Submission>(SubmissionOptions{directory, FindTrainer()}, *loop_);
    prepare = [submission](const SubmissionRequest& request) {
      return submission->Prepare(request);
    };
  }
  ASSIGN_OR_RETURN(rest_, RestServer::Start(rest_options, *loop_, *feed_, *tokens_, *audit_,
                                            std::move(prepare)));
  return Status();
}

Status ControllerService::StartGateway(const ControllerServiceOptions& options) {
  AgentGatewayOptions gateway;
  gateway.address = options.agents;
  gateway.token = endpoint_.token;
  gateway.heartbeat_period = options.heartbeat_period;
  gateway.admission = admission_.get();
  gateway.term = term_;
  ASSIGN_OR_RETURN(gateway_, AgentGateway::Start(gateway, *loop_, *audit_));
  NodeCheckPort port;
  port.targets = [this] {
    return loop_->Read([](const runtime::Controller& core) { return core.CheckTargets(); });
  };
  port.send = [this](const NodeId& node, const proto::CheckOrder& order) {
    return gateway_->SendCheck(node, order);
  };
  checks_ = std::make_unique<NodeCheckService>(std::move(port));
  gateway_->OnCheckAnswer([this](const NodeId& node, const proto::CheckAnswer& answer) {
    checks_->TakeAnswer(node, answer);
  });
  return {};
}

void ControllerService::CheckJob(const runtime::NodeCheckOrder& order) {
  checks_->CheckJob(order, [this, order](const proto::CheckStatus& status) {
    loop_->Push(NodesCheckedEvent(order, status), nullptr);
  });
}

void ControllerService::StartHooks(const std::vector<spec::HookSpec>& hooks) {
  if (hooks.empty()) return;
  NotifierOptions notify;
  notify.on_first_failure = [](const std::string& line) { io::LogWarning("controller", line); };
  hooks_ = std::make_unique<Notifier>(hooks, std::move(notify));
}

void ControllerService::FinishHooks() {
  if (hooks_ == nullptr) return;
  for (const HookResult& result : hooks_->Finish(kHookLimit)) {
    if (result.failed == 0 && result.dropped == 0) continue;
    io::LogWarning("controller", "the hook '" + result.name +
                                     "': " + std::to_string(result.delivered) +
                                     " events delivered, " + std::to_string(result.failed) +
                                     " failed, " + std::to_string(result.dropped) + " dropped");
  }
  hooks_.reset();
}

Result<std::optional<ServerTls>> ControllerService::LoadTls(const ControllerServiceOptions& options,
                                                            const std::string& directory) {
  ASSIGN_OR_RETURN(const HostPort rest, ParseHostPort(options.rest));
  ASSIGN_OR_RETURN(const HostPort agents, ParseHostPort(options.agents));
  std::string text;
  if (!options.config_file.empty()) {
    ASSIGN_OR_RETURN(text, io::ReadText(options.config_file, kLargestConfiguration));
  }
  ASSIGN_OR_RETURN(const auto paths, FindTls(text, options.config_file, directory));
  std::optional<ServerTls> tls;
  if (paths) {
    const std::string hosts[] = {rest.host, agents.host};
    ASSIGN_OR_RETURN(tls, LoadServerTls(*paths, hosts, io::Now()));
  }
  RETURN_IF_ERROR(RefuseWithoutTls(options.agents, agents.host, paths.has_value()));
  RETURN_IF_ERROR(RefuseWithoutTls(options.rest, rest.host, paths.has_value()));
  return tls;
}

ControllerService::~ControllerService() { Stop(); }

void ControllerService::StopJobs(const std::string& reason, Duration limit) {
  const Instant deadline = io::MonotonicNow() + limit;
  feed_->Close();
  rest_->Stop();  // a submission under way is a job afterwards, or has been refused
  const auto live_jobs = [this] {
    std::vector<std::string> ids;
    for (const proto::JobStatus& job :
         loop_->Read([](const runtime::Controller& core) { return core.Listing(io::Now()); })) {
      if (!runtime::IsTerminal(job.state())) ids.push_back(job.job().id());
    }
    return ids;
  };
  for (const std::string& id : live_jobs()) {
    proto::Event event;
    event.mutable_job_stop_requested()->set_job_id(id);
    event.mutable_job_stop_requested()->set_reason(reason);
    const Status accepted = loop_->Apply(std::move(event));
    if (!accepted.ok())
      io::LogError("controller", "cannot stop job " + id + ": " + accepted.message());
  }
  while ((!live_jobs().empty() || gateway_->streams() > 0) && io::MonotonicNow() < deadline) {
    std::this_thread::sleep_for(kLeavingPoll);
  }
}

// The reverse order of the start. The feed is closed first, so that streams of events end.
void ControllerService::Stop() {
  if (feed_ != nullptr) feed_->Close();
  if (rest_ != nullptr) rest_->Stop();
  if (gateway_ != nullptr) gateway_->OnCheckAnswer(nullptr);
  if (loop_ != nullptr) loop_->Stop();
  if (gateway_ != nullptr) gateway_->Stop();
  // Another controller takes over at once. Nothing is appended or sent from here on.
  if (leadership_ != nullptr) leadership_->Stop();
  FinishHooks();
  if (!endpoint_.rest.empty()) {
    // A file that is already gone is as good.
    (void)!io::PosixFileSystem().Remove(endpoint_path_).ok();
    endpoint_.rest.clear();
  }
}

}  // namespace longhaul::service
