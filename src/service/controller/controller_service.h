// The whole controller: event log, core, gRPC for agents, REST for users, endpoint.json.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "runtime/controller/controller.h"
#include "service/client/endpoint.h"
#include "service/controller/agents/agent_gateway.h"
#include "service/controller/check/node_check_service.h"
#include "service/controller/core_loop.h"
#include "service/controller/log/event_log.h"
#include "service/controller/log/notification_feed.h"
#include "service/controller/rest/rest_server.h"
#include "service/controller/standby/leadership.h"
#include "service/controller/standby/postgres_log.h"
#include "service/controller/standby/standby.h"
#include "service/notify/notifier.h"
#include "service/security/external_identity.h"
#include "service/security/token_store.h"

namespace longhaul::service {

// For controllers of one cluster of which one leads and the others stand by (docs/standby.md).
struct SharedLogOptions {
  std::string address;  // postgresql://...; empty: the log is events.db and nobody stands by
  Duration lease = std::chrono::seconds(1);
  StandbyOptions standby;
};

struct ControllerServiceOptions {
  std::string state_directory;  // created when absent; has events.db, token, tokens.json,
                                // audit.log and endpoint.json
  std::string rest = "127.0.0.1:0";
  std::string agents = "127.0.0.1:0";
  std::string token_file;     // empty: state_directory/token
  bool behind_proxy = false;  // see RestServerOptions
  SharedLogOptions shared_log;
  Duration heartbeat_period = std::chrono::milliseconds(250);
  runtime::ControllerOptions core;
  std::string notify_file;  // hooks, docs/notify.md; empty: none
  std::string config_file;  // docs/controller-file.md; empty: the standard configuration
  std::function<void()> kill_controller;  // see CoreLoopOptions
  std::function<void(const Status&)> on_violation;
  PrepareJob prepare;   // empty: submission.h. Tests make their own jobs.
  std::string planner;  // the program longhaul-tools; empty: the one beside this program
  // Whose tokens are accepted besides the controller's own: those of REST callers, and with TLS
  // those of agents that join. Shared by both servers. None: no others.
  std::shared_ptr<ExternalIdentity> external;
};

class ControllerService {
 public:
  // Replays the log and listens; endpoint.json exists once it listens. With a shared log it blocks
  // until this controller leads; kCancelled when it is to end before.
  static Result<std::unique_ptr<ControllerService>> Start(const ControllerServiceOptions& options);
  ~ControllerService();  // stops
  ControllerService(const ControllerService&) = delete;
  ControllerService& operator=(const ControllerService&) = delete;

  // Stops all jobs with a last checkpoint, as an operator would, and accepts no more requests.
  // Returns when all jobs have ended and the agents have left, or after `limit`. Call Stop next.
  void StopJobs(const std::string& reason, Duration limit);

  // Answers the requests under way, closes all connections and removes endpoint.json. Workers
  // continue.
  void Stop();

  const Endpoint& endpoint() const { return endpoint_; }
  TokenStore& tokens() { return *tokens_; }
  AgentAdmission* admission() { return admission_.get(); }
  CoreLoop& loop() { return *loop_; }
  EventLog& log() { return *log_; }

 private:
  ControllerService() = default;
  Status Open(const ControllerServiceOptions& options);
  Status OpenToken(const ControllerServiceOptions& options, const std::string& directory);
  // Loads the files of TLS, if there are any: those of the configuration, or those that init made.
  Result<std::optional<ServerTls>> LoadTls(const ControllerServiceOptions& options,
                                           const std::string& directory);
  Status OpenLog(const ControllerServiceOptions& options, const std::string& directory,
                 const std::optional<ServerTls>& tls);
  Status StandBy(const ControllerServiceOptions& options);
  // The tables of tokens, and with TLS the admission of agents.
  Status OpenTables(const ControllerServiceOptions& options, const std::string& directory,
                    std::optional<ServerTls> tls);
  Status StartRest(const ControllerServiceOptions& options, const std::string& directory);

  // The gateway, and the node checks that use it.
  Status StartGateway(const ControllerServiceOptions& options);
  // Checks the nodes; the result becomes an event of the core.
  void CheckJob(const runtime::NodeCheckOrder& order);
  void StartHooks(const std::vector<spec::HookSpec>& hooks);
  void FinishHooks();

  // In the order of construction; destroyed in reverse.
  std::unique_ptr<Notifier> hooks_;  // null: there are none
  std::unique_ptr<EventLog> log_;
  PostgresLog* shared_log_ = nullptr;  // log_, where controllers share it
  uint64_t term_ = 0;                  // of the shared log
  std::unique_ptr<TokenStore> tokens_;
  std::unique_ptr<AuditLog> audit_;
  std::unique_ptr<NotificationFeed> feed_;
  std::unique_ptr<CoreLoop> loop_;
  std::unique_ptr<AgentAdmission> admission_;  // none: without TLS
  std::unique_ptr<AgentGateway> gateway_;
  std::unique_ptr<NodeCheckService> checks_;
  std::unique_ptr<RestServer> rest_;
  std::unique_ptr<Leadership> leadership_;  // null: nobody stands by
  Endpoint endpoint_;
  std::string endpoint_path_;
};

}  // namespace longhaul::service
