#include "service/agent/fork_server_link.h"

#include <fcntl.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "io/net/socket.h"
#include "service/agent/worker_output.h"

namespace longhaul::service {

Result<std::unique_ptr<ForkServerLink>> ForkServerLink::Start(
    io::EventLoop& loop, const std::string& trainer, const std::string& log_path,
    const std::optional<io::UserAccount>& user) {
  constexpr int kSocketThere = 3;
  ASSIGN_OR_RETURN(auto ends, io::UnixPair());
  ASSIGN_OR_RETURN(const io::Fd log, OpenLog(log_path));
  io::ProcessOptions options;
  options.argv = {trainer, "--fork-server", std::to_string(kSocketThere)};
  options.environment = io::CurrentEnvironment();
  // One thread or no fork: the libraries' pools start in the workers.
  options.environment["OMP_NUM_THREADS"] = "1";
  options.environment["OPENBLAS_NUM_THREADS"] = "1";
  options.stdout_fd = log.get();
  options.stderr_fd = log.get();
  options.inherited = {{ends.second.get(), kSocketThere}};
  options.signal_on_parent_death = SIGKILL;
  options.user = user;
  if (user.has_value()) io::SetUserVariables(*user, options.environment);
  ASSIGN_OR_RETURN(io::Process process, io::Start(options));
  // Our end must never block the loop.
  const int flags = fcntl(ends.first.get(), F_GETFL);
  fcntl(ends.first.get(), F_SETFL, flags | O_NONBLOCK);
  return std::unique_ptr<ForkServerLink>(
      new ForkServerLink(loop, std::move(process), std::move(ends.first), log_path));
}

ForkServerLink::ForkServerLink(io::EventLoop& loop, io::Process process, io::Fd socket,
                               std::string log_path)
    : loop_(loop),
      process_(std::move(process)),
      socket_(std::move(socket)),
      log_path_(std::move(log_path)) {
  loop_.Watch(socket_.get(), false, [this](bool, bool) { Read(); });
}

ForkServerLink::~ForkServerLink() {
  waiting_.clear();
  End();
}

void ForkServerLink::Fork(const std::map<std::string, std::string>& environment, int output,
                          Answer answer) {
  if (!alive_) return answer(Unavailable("the fork server has ended"));
  worker_api::WarmStart start;
  start.id = next_id_++;
  start.environment = environment;
  const Result<std::vector<std::byte>> packet = worker_api::EncodeWarmRequest(start);
  if (!packet.ok()) return answer(packet.status());
  const std::array<int, 2> outputs{output, output};
  if (const Status sent = io::SendMessage(socket_, *packet, outputs); !sent.ok()) {
    return answer(sent.WithContext("asking the fork server for a worker"));
  }
  waiting_.emplace(start.id, std::move(answer));
}

void ForkServerLink::Read() {
  for (;;) {
    const Result<std::optional<io::UnixMessage>> message =
        io::ReceiveMessage(socket_, worker_api::kMaxWarmRequestBytes);
    if (message.ok() && !message->has_value()) return;
    worker_api::WarmReply reply;
    if (!message.ok() || (*message)->bytes.size() != sizeof(reply)) return End();
    std::memcpy(&reply, (*message)->bytes.data(), sizeof(reply));
    const auto found = waiting_.find(reply.id);
    if (reply.magic != worker_api::kWarmMagic || found == waiting_.end()) return End();
    const Answer answer = std::move(found->second);
    waiting_.erase(found);
    if (reply.error_number != 0) {
      answer(FromErrno(static_cast<int>(reply.error_number), "cannot fork a worker"));
    } else {
      answer(reply.pid);
    }
  }
}

void ForkServerLink::End() {
  if (!alive_) return;
  alive_ = false;
  loop_.Unwatch(socket_.get());
  socket_.Reset();
  // It holds no state: whatever it does, it may go.
  (void)io::Signal(process_.pidfd, SIGKILL);
  (void)io::Reap(process_.pidfd);
  const Status reason = Unavailable("the fork server has ended: " + LastLines(log_path_, 0));
  for (auto& [id, answer] : std::exchange(waiting_, {})) answer(reason);
}

}  // namespace longhaul::service
