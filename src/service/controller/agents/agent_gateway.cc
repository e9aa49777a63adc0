#include "service/controller/agents/agent_gateway.h"

#include <grpc/support/log.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/server_callback.h>

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "io/clock.h"
#include "proto/commands.grpc.pb.h"
#include "proto/commands.pb.h"
#include "proto/events.pb.h"
#include "service/security/secret.h"

namespace longhaul::service {

namespace {

constexpr Duration kHelloLimit = std::chrono::seconds(10);  // from the connection to AgentHello
constexpr size_t kMostUnidentified = 256;                   // streams before their AgentHello
constexpr int kMostStreams = 16;                            // of one connection

// The certificate that a client presented in TLS; empty if it has none. TLS has verified only that
// the client has its key.
std::string CertificateOf(const grpc::ServerContextBase& context) {
  const std::shared_ptr<const grpc::AuthContext> peer = context.auth_context();
  if (peer == nullptr) return "";
  const auto values = peer->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
  return values.empty() ? "" : std::string(values.front().data(), values.front().size());
}

// The address of a gRPC peer such as "ipv4:10.0.0.7:40000" or "ipv6:%5B::1%5D:40000", without its
// port.
std::string AddressOf(const std::string& peer) {
  std::string address = peer.substr(peer.find(':') + 1);
  address = address.substr(0, address.rfind(':'));
  if (!address.starts_with("%5B") || !address.ends_with("%5D")) return address;
  return address.substr(3, address.size() - 6);
}

std::shared_ptr<grpc::ServerCredentials> CredentialsOf(const AgentAdmission* admission) {
  if (admission == nullptr) return grpc::InsecureServerCredentials();
  // Not verified by gRPC, whose refusal nobody would see: agent_admission.h verifies it, reports
  // the reason to the agent and logs it.
  grpc::SslServerCredentialsOptions options(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_BUT_DONT_VERIFY);
  options.pem_root_certs = admission->authority();
  options.pem_key_cert_pairs.push_back({admission->server().key, admission->server().certificates});
  return grpc::SslServerCredentials(options);
}

}  // namespace

Duration HeartbeatPeriodOf(size_t agents, Duration shortest) {
  constexpr Duration kForEach = std::chrono::microseconds(500), kLongest = std::chrono::seconds(1);
  const Duration of_all = std::min(
      kLongest, static_cast<int64_t>(std::min<size_t>(agents, kLongest / kForEach)) * kForEach);
  return std::max(shortest, of_all);
}

// One connection. Owned by itself until OnDone, and by the gateway while it is its node's newest.
// Lock order: the gateway's mutex is never taken while holding a stream's.
class AgentGateway::Stream final
    : public grpc::ServerBidiReactor<proto::FromAgent, proto::ToAgent> {
 public:
  static Stream* Open(AgentGateway& gateway, grpc::CallbackServerContext* context) {
    std::shared_ptr<Stream> stream(new Stream(gateway, context));
    stream->self_ = stream;
    if (!gateway.Expect(stream)) {
      stream->End(
          {grpc::StatusCode::RESOURCE_EXHAUSTED, "too many agents connect at a time: try again"});
      return stream.get();
    }
    stream->StartRead(&stream->incoming_);
    return stream.get();
  }

  const NodeId& node() const { return node_; }  // once identified
  uint64_t incarnation() const { return incarnation_; }
  void SetIdentity(const proto::AgentHello& hello, Instant until) {
    node_ = NodeId(hello.node());
    incarnation_ = hello.incarnation();
    until_ = until;
  }
  std::string certificate() const { return CertificateOf(*context_); }
  Instant until() const { return until_; }  // once identified: when its certificate expires

  // Sends Welcome; only after it may others be sent.
  void Welcome(const proto::Welcome& welcome) {
    {
      std::lock_guard lock(mutex_);
      welcomed_ = true;
    }
    proto::ToAgent message;
    *message.mutable_welcome() = welcome;
    Send(std::move(message));
  }

  // Called by the loop's thread. It never blocks: an agent that does not read fills its outbox, and
  // then its connection is broken. It receives what it missed when it joins again.
  void Send(proto::ToAgent message) {
    std::lock_guard lock(mutex_);
    if (!welcomed_ || ending_) return;
    if (outbox_.size() >= kLongestOutbox) {
      reason_ = "it does not read what it is sent";
      context_->TryCancel();
      return;
    }
    // The one in front may be on its way already.
    const bool supersedes =
        message.has_acknowledged() && outbox_.size() > 1 && outbox_.back().has_acknowledged();
    if (supersedes) {
      outbox_.back().set_acknowledged(message.acknowledged());
      return;
    }
    outbox_.push_back(std::move(message));
    if (outbox_.size() == 1) StartWrite(&outbox_.front());
  }

  // Breaks the connection; OnDone follows.
  void Cancel(const std::string& reason) {
    std::lock_guard lock(mutex_);
    if (ending_) return;
    reason_ = reason;
    context_->TryCancel();
  }

  // Whether nothing came for so long, although we were reading. A paused stream is silent because
  // the gateway does not read, so its silence proves nothing.
  bool SilentSince(Instant since) const {
    std::lock_guard lock(mutex_);
    return !paused_ && last_received_ < since;
  }
  // The same for kMissedHeartbeats periods.
  bool MissedHeartbeats(Instant now) const {
    return SilentSince(now - kMissedHeartbeats * longest_period());
  }
  void NoteReceived() {
    std::lock_guard lock(mutex_);
    last_received_ = io::MonotonicNow();
  }

  Duration period() const {
    std::lock_guard lock(mutex_);
    return period_;
  }
  // The longer one of the present period and the one before it, in which a heartbeat may be under
  // way.
  Duration longest_period() const {
    std::lock_guard lock(mutex_);
    return std::max(period_, period_before_);
  }
  void SetPeriod(Duration period) {
    std::lock_guard lock(mutex_);
    period_before_ = std::exchange(period_, period);
  }
  // Whether the next heartbeat to the agent is due; if so, the caller sends it.
  bool TakeHeartbeat(Instant now) {
    std::lock_guard lock(mutex_);
    // The watcher looks once in the shortest period, and not on the dot.
    if (now - last_heartbeat_ < period_ - period_ / 4) return false;
    last_heartbeat_ = now;
    return true;
  }

  // One read is under way at a time. The next one starts only when this one has been taken, so the
  // events of an agent enter the loop in their order.
  void OnReadDone(bool ok) override {
    if (!ok) return End(grpc::Status::OK);
    NoteReceived();
    bool read_on = true;
    const grpc::Status status = Take(read_on);
    if (!status.ok()) return End(status);
    if (read_on) StartReadUnlessEnding();
  }

  void OnWriteDone(bool ok) override {
    std::lock_guard lock(mutex_);
    outbox_.pop_front();
    if (!ok || ending_) outbox_.clear();
    if (!outbox_.empty()) {
      StartWrite(&outbox_.front());
    } else if (ending_) {
      FinishLocked();
    }
  }

  void OnCancel() override { End(grpc::Status::CANCELLED); }

  void OnDone() override {
    std::string reason;
    {
      std::lock_guard lock(mutex_);
      reason = reason_.empty() ? "its connection ended" : reason_;
    }
    gateway_.Unexpect(this);
    if (identified_) gateway_.Forget(this, reason);
    self_.reset();  // maybe the last reference: nothing may follow
  }

 private:
  Stream(AgentGateway& gateway, grpc::CallbackServerContext* context)
      : gateway_(gateway), context_(context), last_received_(io::MonotonicNow()) {}

  grpc::Status Take(bool& read_on) {
    if (!identified_) {
      if (!incoming_.has_hello()) {
        return {grpc::StatusCode::INVALID_ARGUMENT, "the first message must be AgentHello"};
      }
      const Status refused = gateway_.Identify(self_, incoming_.hello());
      gateway_.Audit(AddressOf(context_->peer()), incoming_.hello(), refused);
      gateway_.Unexpect(this);
      if (!refused.ok()) {
        return {static_cast<grpc::StatusCode>(refused.code()), refused.message()};
      }
      identified_ = true;
      return grpc::Status::OK;
    }
    if (incoming_.has_event()) return TakeEvent(read_on);
    if (incoming_.has_check()) gateway_.TakeCheckAnswer(node_, incoming_.check());
    return grpc::Status::OK;
  }

  grpc::Status TakeEvent(bool& read_on) {
    proto::Event event = std::move(*incoming_.mutable_event());
    if (event.sequence() == 0 || event.kind_case() == proto::Event::KIND_NOT_SET) {
      return {grpc::StatusCode::INVALID_ARGUMENT, "an event needs a sequence number and a kind"};
    }
    // The identity comes from the hello, which was authenticated, and not from the event: an agent
    // cannot report for another node.
    event.set_node(node_.value());
    event.set_incarnation(incarnation_);
    {
      std::lock_guard lock(mutex_);
      ++waiting_;
      paused_ = waiting_ >= kWindow;
      read_on = !paused_;
    }
    // The stream may be gone when the event is logged.
    const bool pushed =
        gateway_.loop_.Push(std::move(event), [weak = std::weak_ptr<Stream>(self_)] {
          if (const auto stream = weak.lock()) stream->EventTaken();
        });
    // Refused events are lost with the stream. The agent keeps them until they are acknowledged and
    // sends them again.
    if (pushed) return grpc::Status::OK;
    return {grpc::StatusCode::UNAVAILABLE, "the controller is overloaded or stopping"};
  }

  // Called by the loop's thread once the event is in the log. Reading resumes at half the window,
  // so that a slow log does not cause a start and a stop for each event.
  void EventTaken() {
    {
      std::lock_guard lock(mutex_);
      --waiting_;
      if (!paused_ || waiting_ > kWindow / 2) return;
      paused_ = false;
      last_received_ = io::MonotonicNow();
    }
    StartReadUnlessEnding();
  }

  void StartReadUnlessEnding() {
    std::lock_guard lock(mutex_);
    if (!ending_) StartRead(&incoming_);
  }

  // Ends the stream with a status, once; a write under way comes to its end first.
  void End(const grpc::Status& status) {
    std::lock_guard lock(mutex_);
    if (ending_) return;
    ending_ = true;
    final_ = status;
    if (!status.ok() && reason_.empty()) reason_ = status.error_message();
    if (outbox_.empty()) {
      FinishLocked();
    } else {
      context_->TryCancel();  // OnWriteDone finishes
    }
  }

  // gRPC allows Finish once, and no write may be under way. Requires mutex_.
  void FinishLocked() {
    if (finished_) return;
    finished_ = true;
    Finish(final_);
  }

  AgentGateway& gateway_;
  grpc::CallbackServerContext* const context_;
  std::shared_ptr<Stream> self_;
  proto::FromAgent incoming_;  // belongs to the read under way
  bool identified_ = false;    // by reads only, which come one at a time, and OnDone after them
  NodeId node_;
  uint64_t incarnation_ = 0;
  Instant until_;

  mutable std::mutex mutex_;  // guards all below
  Instant last_received_;
  Duration period_{};  // of its heartbeats
  Duration period_before_{};
  bool welcomed_ = false;
  bool paused_ = false;  // no read is under way: too many events wait
  int waiting_ = 0;
  bool ending_ = false;
  bool finished_ = false;
  grpc::Status final_;
  std::string reason_;
  Instant last_heartbeat_;             // to the agent
  std::deque<proto::ToAgent> outbox_;  // the front one is being written
};

class AgentGateway::Service final : public proto::Controller::CallbackService {
 public:
  explicit Service(AgentGateway& gateway) : gateway_(gateway) {}

  grpc::ServerBidiReactor<proto::FromAgent, proto::ToAgent>* Connect(
      grpc::CallbackServerContext* context) override {
    return Stream::Open(gateway_, context);
  }

  grpc::ServerUnaryReactor* Join(grpc::CallbackServerContext* context,
                                 const proto::JoinRequest* request,
                                 proto::JoinAnswer* answer) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    AgentAdmission* const admission = gateway_.options_.admission;
    if (admission == nullptr) {
      reactor->Finish({grpc::StatusCode::FAILED_PRECONDITION,
                       "this controller has no TLS: agents use its token file"});
      return reactor;
    }
    auto joined =
        admission->Join(*request, CertificateOf(*context), AddressOf(context->peer()), io::Now());
    if (joined.ok()) {
      *answer = *std::move(joined);
      reactor->Finish(grpc::Status::OK);
    } else {
      reactor->Finish(
          {static_cast<grpc::StatusCode>(joined.status().code()), joined.status().message()});
    }
    return reactor;
  }

 private:
  AgentGateway& gateway_;
};

AgentGateway::AgentGateway(const AgentGatewayOptions& options, CoreLoop& loop, AuditLog& audit)
    : options_(options), loop_(loop), audit_(audit), service_(std::make_unique<Service>(*this)) {}

AgentGateway::~AgentGateway() { Stop(); }

Result<std::unique_ptr<AgentGateway>> AgentGateway::Start(const AgentGatewayOptions& options,
                                                          CoreLoop& loop, AuditLog& audit) {
  std::unique_ptr<AgentGateway> gateway(new AgentGateway(options, loop, audit));
  if (options.admission != nullptr) {
    options.admission->OnRevoked(
        [raw = gateway.get()](const std::string& node) { raw->EndRevoked(NodeId(node)); });
  }
  RETURN_IF_ERROR(gateway->Listen());
  gateway->watcher_ = std::thread([raw = gateway.get()] { raw->WatchSilence(); });
  return gateway;
}

Status AgentGateway::Listen() {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(options_.address, CredentialsOf(options_.admission), &port);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMostStreams);
  // Else two controllers would share a port, and agents would come to either.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetMaxReceiveMessageSize(kLargestMessage);
  builder.RegisterService(service_.get());
  // Why it can't listen is said by our own message; gRPC would print a page about it.
  gpr_set_log_function([](gpr_log_func_args*) {});
  server_ = builder.BuildAndStart();
  gpr_set_log_function(nullptr);  // gRPC's own again
  if (server_ == nullptr || port == 0) {
    return AlreadyExists("cannot listen for agents on " + options_.address +
                         ": the port is in use or the address isn't ours; choose another with "
                         "--agents HOST:PORT (port 0: any)");
  }
  port_ = static_cast<uint16_t>(port);
  return Status();
}

void AgentGateway::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
    current_.clear();
  }
  stopping_.notify_all();
  if (watcher_.joinable()) watcher_.join();
  if (server_ != nullptr) {
    server_->Shutdown(std::chrono::system_clock::now());  // cancels what is open
    server_->Wait();
    server_.reset();
  }
}

void AgentGateway::Audit(const std::string& peer, const proto::AgentHello& hello,
                         const Status& status) {
  AuditEntry entry;
  entry.from = peer;
  entry.did = "connect agent";
  entry.object = hello.node();
  if (!status.ok()) {
    entry.status = status.code() == Code::kUnavailable ? 503 : 403;
    entry.error = status.message();
  }
  audit_.Record(entry, io::Now());
}

// With TLS the certificate identifies the node and the token is not used. Without it the shared
// token is the only check. Returns until when the identity is valid.
Result<Instant> AgentGateway::Authenticate(const std::string& certificate,
                                           const proto::AgentHello& hello) const {
  if (options_.admission != nullptr) {
    return options_.admission->Verify(certificate, hello.node(), io::Now());
  }
  if (EqualInConstantTime(options_.token, hello.token())) return Instant::max();
  return Unauthenticated("wrong token: agent and controller must read the same token file");
}

Status AgentGateway::Identify(const std::shared_ptr<Stream>& stream,
                              const proto::AgentHello& hello) {
  ASSIGN_OR_RETURN(const Instant until, Authenticate(stream->certificate(), hello));
  if (!IsNodeName(hello.node())) {
    return InvalidArgument("a node's name has 1 to 63 of a-z, 0-9 and '-', not " +
                           hello.node().substr(0, 80));
  }
  if (hello.incarnation() == 0) return InvalidArgument("an incarnation starts at 1");
  const NodeId node(hello.node());
  std::shared_ptr<Stream> replaced;
  {
    std::lock_guard lock(mutex_);
    if (stopped_) return Unavailable("the controller is stopping");
    std::shared_ptr<Stream>& current = current_[node];
    // Two agents of one name: the later life wins, so that an old process that reconnects cannot
    // displace the one that has replaced it.
    if (current != nullptr && current->incarnation() > hello.incarnation()) {
      return FailedPrecondition("a newer agent of " + hello.node() + " is connected");
    }
    stream->SetIdentity(hello, until);
    stream->SetPeriod(HeartbeatPeriodOf(current_.size(), options_.heartbeat_period));
    replaced = std::exchange(current, stream);
  }
  if (replaced != nullptr) replaced->Cancel("its agent has connected anew");
  // In the loop, so that what Welcome acknowledges is logged.
  const bool posted = loop_.Post([this, stream](const runtime::Controller& core) {
    proto::Welcome welcome;
    welcome.set_acknowledged(core.AcknowledgedSequence(stream->node(), stream->incarnation()));
    welcome.set_heartbeat_period_ns(stream->period().count());
    welcome.set_term(options_.term);
    stream->Welcome(welcome);
  });
  return posted ? Status() : Unavailable("the controller is overloaded or stopping");
}

bool AgentGateway::Expect(const std::shared_ptr<Stream>& stream) {
  const std::lock_guard lock(mutex_);
  if (stopped_ || unidentified_.size() >= kMostUnidentified) return false;
  unidentified_.emplace(stream.get(), stream);
  return true;
}

void AgentGateway::Unexpect(const Stream* stream) {
  const std::lock_guard lock(mutex_);
  unidentified_.erase(stream);
}

// Only the newest stream of a node reports its disconnection. An older one that ends later was
// replaced, so the node is connected.
void AgentGateway::Forget(const Stream* stream, const std::string& reason) {
  std::lock_guard lock(mutex_);
  const auto found = current_.find(stream->node());
  if (stopped_ || found == current_.end() || found->second.get() != stream) return;
  proto::Event event;
  event.set_at_ns(ToNanoseconds(io::Now()));
  event.set_node(stream->node().value());
  event.set_incarnation(stream->incarnation());
  event.mutable_agent_disconnected()->set_reason(reason);
  // Under the mutex: a new stream of this node gets its events in only after this one.
  loop_.Push(std::move(event), nullptr);
  current_.erase(found);
}

// A stream that is being identified may have been verified before the revocation, and its node is
// not known yet. All of them are ended; agents connect again.
void AgentGateway::EndRevoked(const NodeId& node) {
  std::vector<std::shared_ptr<Stream>> ended;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = current_.find(node); found != current_.end()) {
      ended.push_back(found->second);
    }
    for (const auto& [raw, weak] : unidentified_) {
      if (auto stream = weak.lock()) ended.push_back(std::move(stream));
    }
  }
  for (const auto& stream : ended) stream->Cancel("its certificate was revoked");
}

std::shared_ptr<AgentGateway::Stream> AgentGateway::Find(const NodeId& node) const {
  std::lock_guard lock(mutex_);
  const auto found = current_.find(node);
  return found == current_.end() ? nullptr : found->second;
}

void AgentGateway::Deliver(const NodeId& node, const proto::Command& command) {
  const auto stream = Find(node);
  if (stream == nullptr) return;
  proto::ToAgent message;
  *message.mutable_command() = command;
  message.mutable_command()->set_term(options_.term);
  stream->Send(std::move(message));
}

bool AgentGateway::SendCheck(const NodeId& node, const proto::CheckOrder& order) {
  const auto stream = Find(node);
  if (stream == nullptr) return false;
  proto::ToAgent message;
  *message.mutable_check() = order;
  stream->Send(std::move(message));
  return true;
}

void AgentGateway::OnCheckAnswer(TakeCheck take) {
  const std::lock_guard lock(check_mutex_);
  take_check_ = std::move(take);
}

void AgentGateway::TakeCheckAnswer(const NodeId& node, const proto::CheckAnswer& answer) {
  const std::lock_guard lock(check_mutex_);
  if (take_check_) take_check_(node, answer);
}

// A new life of the agent has its own sequence numbers, so the incarnation is compared.
void AgentGateway::Acknowledge(const NodeId& node, uint64_t incarnation, uint64_t sequence) {
  const auto stream = Find(node);
  if (stream == nullptr || stream->incarnation() != incarnation) return;
  proto::ToAgent message;
  message.set_acknowledged(sequence);
  stream->Send(std::move(message));
}

size_t AgentGateway::streams() const {
  std::lock_guard lock(mutex_);
  return current_.size();
}

// Only a change by half is worth a message to each agent. Where controllers stand by, the message
// is the heartbeat to the agents as well.
void AgentGateway::AdaptPeriods(const std::vector<std::shared_ptr<Stream>>& streams) const {
  const Duration wanted = HeartbeatPeriodOf(streams.size(), options_.heartbeat_period);
  for (const auto& stream : streams) {
    const Duration period = stream->period();
    const bool changes = 2 * wanted >= 3 * period || 2 * period >= 3 * wanted;
    const bool due = options_.term > 0 && stream->TakeHeartbeat(io::MonotonicNow());
    if (!changes && !due) continue;
    if (changes) stream->SetPeriod(wanted);
    proto::ToAgent message;
    message.set_heartbeat_period_ns((changes ? wanted : period).count());
    stream->Send(std::move(message));
  }
}

void AgentGateway::WatchSilence() {
  Instant last_look = io::MonotonicNow();
  while (true) {
    std::vector<std::shared_ptr<Stream>> streams;
    std::vector<std::shared_ptr<Stream>> silent;
    {
      std::unique_lock lock(mutex_);
      stopping_.wait_for(lock, options_.heartbeat_period, [this] { return stopped_; });
      if (stopped_) return;
      for (const auto& [node, stream] : current_) streams.push_back(stream);
      for (const auto& [raw, weak] : unidentified_) {
        if (auto stream = weak.lock()) silent.push_back(std::move(stream));
      }
    }
    const Instant now = io::MonotonicNow();
    // Did we sleep ourselves (a paused machine, no processor)? Then silence proves nothing.
    const bool we_slept = now - last_look > 2 * options_.heartbeat_period;
    last_look = now;
    for (const auto& stream : silent) {
      if (!stream->SilentSince(now - kHelloLimit)) continue;
      stream->Cancel("no AgentHello within " + ToString(kHelloLimit));
    }
    for (const auto& stream : streams) {
      if (stream->until() <= io::Now()) {
        stream->Cancel("its certificate has expired");
      } else if (we_slept) {
        stream->NoteReceived();
      } else if (stream->MissedHeartbeats(now)) {
        stream->Cancel("silent for " + ToString(kMissedHeartbeats * stream->longest_period()));
      }
    }
    AdaptPeriods(streams);
  }
}

}  // namespace longhaul::service
