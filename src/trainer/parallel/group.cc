#include "trainer/parallel/group.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <numeric>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/check.h"
#include "io/clock.h"
#include "spec/model/exchange.h"

namespace longhaul::trainer {
namespace {

constexpr std::chrono::seconds kStoreTimeout{20};
// A dead peer is noticed at once by its connection; this bounds a silent one.
constexpr std::chrono::seconds kGroupTimeout{60};

Status FromException(const std::exception& error, const std::string& what) {
  std::string message = error.what();
  message.resize(std::min(message.find('\n'), message.size()));  // c10 adds a backtrace
  return Unavailable(what + ": " + message);
}

constexpr int kExchangeTag = 1 << 28;  // beyond the tags of sends and receives

template <typename T>
std::vector<at::Tensor> Tensors(std::span<T> values) {
  const auto type = std::is_same_v<T, double> ? at::kDouble : at::kFloat;
  return {at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, type)};
}

std::string NameOf(Message::Kind kind) {
  switch (kind) {
    case Message::Kind::kSum:
      return "cannot sum over the ranks";
    case Message::Kind::kMax:
      return "cannot compare over the ranks";
    case Message::Kind::kSend:
      return "cannot send to a rank";
    case Message::Kind::kReceive:
      return "cannot receive from a rank";
  }
  return "";
}

}  // namespace

struct Group::Backend {
  c10::intrusive_ptr<c10d::TCPStore> store;
  c10::intrusive_ptr<c10d::ProcessGroupGloo::Options> options;  // one device for all groups
  c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo;
  // Sends under way. Each refers to the caller's memory, which must stay until Flush.
  std::vector<c10::intrusive_ptr<c10d::Work>> leaving;
};

Group::Group(std::string name, std::vector<int> ranks, int rank)
    : name_(std::move(name)),
      ranks_(std::move(ranks)),
      rank_(rank),
      sent_(ranks_.size()),
      received_(ranks_.size()) {}
Group::~Group() = default;

Result<std::unique_ptr<Group>> Group::Join(const GroupOptions& options) {
  std::vector<int> ranks(static_cast<size_t>(options.world));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::unique_ptr<Group> group(new Group("world", std::move(ranks), options.rank));
  if (options.world == 1) return group;
  try {
    c10d::TCPStoreOptions store_options;
    store_options.port = options.port;
    store_options.isServer = options.serve_store;
    store_options.waitWorkers = false;
    store_options.timeout = kStoreTimeout;
    group->backend_ = std::make_unique<Backend>();
    Backend& backend = *group->backend_;
    backend.store = c10::make_intrusive<c10d::TCPStore>(options.address, store_options);

    backend.options = c10d::ProcessGroupGloo::Options::create(kGroupTimeout);
    backend.options->threads = 1;  // one sum at a time
    const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
    // The store's address is this host's own in a local cluster; asking the resolver for our host
    // name could take seconds.
    const bool loopback = options.address.starts_with("127.") || options.address == "localhost";
    backend.options->devices.push_back(
        interface != nullptr ? c10d::ProcessGroupGloo::createDeviceForInterface(interface)
        : loopback           ? c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")
                             : c10d::ProcessGroupGloo::createDefaultDevice());
    backend.gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(backend.store, options.rank,
                                                               options.world, backend.options);
    return group;
  } catch (const std::exception& error) {
    return FromException(error, "cannot join the other ranks");
  }
}

// Store and device are shared with the parent group. The prefix keeps the keys of groups apart,
// since several groups have the same name and differ in their first rank.
Result<std::unique_ptr<Group>> Group::Split(const std::string& name,
                                            const std::vector<int>& ranks) {
  const auto place = std::find(ranks.begin(), ranks.end(), ranks_[static_cast<size_t>(rank_)]);
  CHECK(place != ranks.end());
  std::unique_ptr<Group> group(new Group(name, ranks, static_cast<int>(place - ranks.begin())));
  if (ranks.size() == 1) return group;
  CHECK(backend_ != nullptr);
  try {
    group->backend_ = std::make_unique<Backend>();
    Backend& backend = *group->backend_;
    backend.store = backend_->store;
    backend.options = backend_->options;
    const auto own = c10::make_intrusive<c10d::PrefixStore>(
        name + "." + std::to_string(ranks.front()), backend.store);
    backend.gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(own, group->rank_, group->world(),
                                                               backend.options);
    return group;
  } catch (const std::exception& error) {
    return FromException(error, "cannot join the " + name + " group");
  }
}

template <typename Operation>
// libtorch reports errors by exceptions; they become a Status here and go no further.
Status Group::Run(Message message, Operation operation) {
  Instant cpu_before;
  if (observer_ != nullptr) {
    cpu_before = io::ProcessCpuTime();
    message.begin = io::MonotonicNow();
  }
  try {
    operation(*backend_);
  } catch (const std::exception& error) {
    return FromException(error, NameOf(message.kind));
  }
  if (observer_ != nullptr) {
    message.end = io::MonotonicNow();
    message.cpu_ns = (io::ProcessCpuTime() - cpu_before).count();
    observer_->OnMessage(*this, message);
  }
  return {};
}

template <typename T>
Status Group::Reduce(std::span<T> values, Message::Kind kind) {
  if (backend_ == nullptr) return {};
  Message message;
  message.kind = kind;
  message.elements = values.size();
  message.element_bytes = sizeof(T);
  message.sequence = ++sums_;
  return Run(message, [&](Backend& backend) {
    // Two ranks need no ring: each sends all of its values to the other one. The sizes are equal on
    // both ranks, so both choose this way.
    if (world() == 2 && values.size_bytes() <= spec::kExchangedBytes) {
      return Exchange(backend, values, kind);
    }
    std::vector<at::Tensor> tensors = Tensors(values);
    c10d::AllreduceOptions options;
    if (kind == Message::Kind::kMax) options.reduceOp = c10d::ReduceOp::MAX;
    backend.gloo->allreduce(tensors, options)->wait();
  });
}

template <typename T>
void Group::Exchange(Backend& backend, std::span<T> values, Message::Kind kind) {
  std::vector<T> others(values.size());
  std::vector<at::Tensor> out = Tensors(values);
  std::vector<at::Tensor> in = Tensors(std::span<T>(others));
  // One after the other: when what arrives meets what leaves, gloo's thread finds the connection
  // locked by the sender, and where that waits for a core, polls for its whole turn (measured: half
  // of all CPU time where four ranks share two cores).
  const auto send = [&] { backend.gloo->send(out, 1 - rank_, kExchangeTag)->wait(); };
  if (rank_ == 0) send();
  backend.gloo->recv(in, 1 - rank_, kExchangeTag)->wait();
  if (rank_ == 1) send();
  // Both add the same two numbers, so both have the same bits.
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] =
        kind == Message::Kind::kMax ? std::max(values[i], others[i]) : values[i] + others[i];
  }
}

Status Group::Sum(std::span<float> values) { return Reduce(values, Message::Kind::kSum); }
Status Group::Sum(std::span<double> values) { return Reduce(values, Message::Kind::kSum); }
Status Group::Max(std::span<float> values) { return Reduce(values, Message::Kind::kMax); }

// Does not block until the receiver is ready. The pipeline's schedule would otherwise block two
// stages on each other.
Status Group::Send(std::span<float> values, int to, int tag) {
  CHECK(backend_ != nullptr && to >= 0 && to < world() && to != rank_);
  Message message;
  message.kind = Message::Kind::kSend;
  message.elements = values.size();
  message.peer = ranks_[static_cast<size_t>(to)];
  message.sequence = ++sent_[static_cast<size_t>(to)];
  return Run(message, [&](Backend& backend) {
    std::vector<at::Tensor> tensors = Tensors(values);
    backend.leaving.push_back(backend.gloo->send(tensors, to, tag));
  });
}

Status Group::Receive(std::span<float> values, int from, int tag) {
  CHECK(backend_ != nullptr && from >= 0 && from < world() && from != rank_);
  Message message;
  message.kind = Message::Kind::kReceive;
  message.elements = values.size();
  message.peer = ranks_[static_cast<size_t>(from)];
  message.sequence = ++received_[static_cast<size_t>(from)];
  return Run(message, [&](Backend& backend) {
    std::vector<at::Tensor> tensors = Tensors(values);
    backend.gloo->recv(tensors, from, tag)->wait();
  });
}

Status Group::Flush() {
  if (backend_ == nullptr) return {};
  try {
    for (const auto& work : std::exchange(backend_->leaving, {})) work->wait();
    return {};
  } catch (const std::exception& error) {
    return FromException(error, NameOf(Message::Kind::kSend));
  }
}

}  // namespace longhaul::trainer
