// The agent's end of a worker's socket, a small state, and a client between them.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "checkpoint/arena.h"
#include "checkpoint/state.h"
#include "io/fd.h"
#include "io/memory/shared_memory.h"
#include "io/net/socket.h"
#include "worker_api/client.h"
#include "worker_api/server_codec.h"

namespace longhaul::worker_api {

// The agent's end: answers Hello and arena requests in a thread and keeps the reports.
class Agent {
 public:
  explicit Agent(WelcomeContent welcome, bool gives_arena = true)
      : welcome_(std::move(welcome)), gives_arena_(gives_arena) {
    Result<std::pair<io::Fd, io::Fd>> pair = io::UnixPair();
    CHECK(pair.ok());
    worker_ = std::move(pair->first);
    socket_ = std::move(pair->second);
    Start();
  }
  ~Agent() {
    worker_.Reset();
    if (thread_.joinable()) thread_.join();
  }

  io::Fd TakeWorkerEnd() { return std::move(worker_); }
  // A new worker meets the same arena. Requires that the old one has closed its end.
  void Restart(WelcomeContent welcome) {
    thread_.join();
    welcome_ = std::move(welcome);
    Result<std::pair<io::Fd, io::Fd>> pair = io::UnixPair();
    worker_ = std::move(pair->first);
    socket_ = std::move(pair->second);
    Start();
  }
  void RefusePieces(std::string reason, bool of_another_state) {
    refuses_ = std::move(reason);
    of_another_state_ = of_another_state;
  }
  // What was received, once the worker's end is closed.
  const std::vector<FromWorker>& Join() {
    thread_.join();
    return received_;
  }
  std::span<std::byte> arena() {
    mapping_ = io::SharedMapping::Map(arena_).value();
    return mapping_.bytes();
  }

 private:
  void Start() {
    thread_ = std::thread([this] { Serve(); });
  }
  void Serve() {
    while (true) {
      Result<std::optional<io::UnixMessage>> message =
          io::ReceiveMessage(socket_, kMaxMessageBytes);
      if (!message.ok() || !*message || (*message)->bytes.empty()) return;
      Result<FromWorker> parsed = ParseFromWorker((*message)->bytes);
      CHECK(parsed.ok()) << parsed.status().message();
      received_.push_back(*parsed);
      if (std::holds_alternative<Hello>(*parsed)) {
        for (const auto& packet : EncodeWelcome(welcome_))
          CHECK(io::SendMessage(socket_, packet).ok());
      } else if (const auto* request = std::get_if<ArenaRequest>(&*parsed)) {
        Answer(request->bytes);
      } else if (const auto* pieces = std::get_if<PiecesRequest>(&*parsed)) {
        GivePieces(pieces->plan_bytes, (*message)->fds);
      }
    }
  }
  // Every byte of what is asked for is 3, as are those of its plan when none is.
  void GivePieces(uint64_t plan_bytes, const std::vector<io::Fd>& fds) {
    if (!refuses_.empty()) {
      const auto refusal = EncodePiecesRefused(refuses_, of_another_state_);
      CHECK(io::SendMessage(socket_, refusal).ok());
      return;
    }
    if (plan_bytes == 0) {
      const std::string plan =
          checkpoint::StatePlan::Create({{"saved", "F32", {3}}}).value().Encode();
      return Send(plan.size(), [&plan](std::span<std::byte> memory) {
        std::memcpy(memory.data(), plan.data(), plan.size());
      });
    }
    CHECK(fds.size() == 1);
    const io::SharedMapping encoded = io::SharedMapping::Map(fds[0]).value();
    const auto plan = checkpoint::StatePlan::Decode(
        {reinterpret_cast<const char*>(encoded.bytes().data()), plan_bytes});
    CHECK(plan.ok()) << plan.status().message();
    Send(checkpoint::ArenaBytesFor(*plan), [&plan](std::span<std::byte> memory) {
      checkpoint::ArenaWriter writer(memory);
      CHECK(writer.Begin(10, 1, *plan).ok());
      for (size_t i = 0; i < plan->size(); ++i) {
        writer.Write(i, std::vector<std::byte>(plan->bytes(i), std::byte{3}));
      }
      writer.Seal();
    });
  }
  template <typename Fill>
  void Send(uint64_t bytes, Fill fill) {
    const io::Fd memory =
        io::CreateSharedMemory("pieces", Bytes(static_cast<int64_t>(bytes)), true).value();
    fill(io::SharedMapping::Map(memory).value().bytes());
    const int given[] = {memory.get()};
    CHECK(io::SendMessage(socket_, EncodePieces(bytes), given).ok());
  }
  void Answer(uint64_t bytes) {
    if (!gives_arena_ || (bytes == 0 && !arena_.valid())) {
      CHECK(io::SendMessage(socket_, EncodeArenaRefused("none here")).ok());
      return;
    }
    if (!arena_.valid()) {
      arena_ = io::CreateSharedMemory("arena", Bytes(static_cast<int64_t>(bytes)), true).value();
    }
    const int fds[] = {arena_.get()};
    CHECK(io::SendMessage(socket_, EncodeArena(bytes), fds).ok());
  }

  WelcomeContent welcome_;
  bool gives_arena_;
  std::string refuses_;  // pieces, with this reason
  bool of_another_state_ = false;
  io::Fd worker_, socket_, arena_;
  io::SharedMapping mapping_;
  std::vector<FromWorker> received_;
  std::thread thread_;
};

struct Model {
  std::vector<float> weights = std::vector<float>(1000, 0.5f);
  int64_t step = 0;

  void RegisterWith(Client& client) {
    client.Register(
        *checkpoint::StatePlan::Create({{"weights", "F32", {1000}}, {"step", "I64", {}}}),
        {std::as_writable_bytes(std::span(weights)), std::as_writable_bytes(std::span(&step, 1))});
  }
};

inline std::unique_ptr<Client> Join(Agent& agent, uint64_t attempt) {
  Result<std::unique_ptr<Client>> client = Client::Join(agent.TakeWorkerEnd(), 0, attempt);
  CHECK(client.ok()) << client.status().message();
  return std::move(client).value();
}

inline WelcomeContent FromMemory(uint64_t step) {
  WelcomeContent welcome;
  welcome.restore_tier = 1;
  welcome.restore_step = step;
  return welcome;
}

}  // namespace longhaul::worker_api
