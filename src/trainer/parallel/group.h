// The ranks of an attempt or some of them, sums over them and messages between them: Gloo through
// c10d, joined over a TCPStore.
//
// A failed operation makes the group unusable (a peer is gone): the process should end, and a new
// attempt makes a new group. Sums are the same bits on every rank, and the same in each run of a
// layout. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/time.h"

namespace longhaul::trainer {

struct GroupOptions {
  int rank = 0;
  int world = 1;
  std::string address = "127.0.0.1";  // of the store
  uint16_t port = 0;
  bool serve_store = false;  // rank 0 of a run without an agent
};

class Group;

// One operation of a group on this rank, as its observer receives it.
struct Message {
  enum class Kind { kSum, kMax, kSend, kReceive };

  Kind kind = Kind::kSum;
  size_t elements = 0;
  size_t element_bytes = 4;
  int peer = -1;          // of the world; of sends and receives
  uint64_t sequence = 0;  // counts the group's sums, or the messages with this peer in a direction
  Instant begin;
  Instant end;
  int64_t cpu_ns = 0;  // of the whole process meanwhile: the transport has a separate thread
};

class MessageObserver {
 public:
  virtual ~MessageObserver() = default;
  virtual void OnMessage(const Group& group, const Message& message) = 0;
};

class Group {
 public:
  // All ranks of the world call it. A world of one needs no store. kUnavailable if one is missing.
  static Result<std::unique_ptr<Group>> Join(const GroupOptions& options);
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group();

  // A group of some of the world's ranks, which all call this with the same name and ranks.
  // Requires that this rank is among them.
  Result<std::unique_ptr<Group>> Split(const std::string& name, const std::vector<int>& ranks);

  // In place, over all ranks. kUnavailable when a peer is gone.
  Status Sum(std::span<float> values);
  Status Sum(std::span<double> values);
  Status Max(std::span<float> values);

  // To and from a rank of the group. Messages of one direction and tag arrive in order. Sent values
  // must not change until Flush, which returns when they are sent.
  Status Send(std::span<float> values, int to, int tag);
  Status Receive(std::span<float> values, int from, int tag);
  Status Flush();

  // Null: no observer.
  void Watch(MessageObserver* observer) { observer_ = observer; }

  // The name of the dimension that it serves.
  const std::string& name() const { return name_; }
  void Rename(std::string name) { name_ = std::move(name); }
  const std::vector<int>& ranks() const { return ranks_; }  // of the world
  int rank() const { return rank_; }
  int world() const { return static_cast<int>(ranks_.size()); }

 private:
  struct Backend;
  Group(std::string name, std::vector<int> ranks, int rank);

  template <typename T>
  Status Reduce(std::span<T> values, Message::Kind kind);
  template <typename T>
  void Exchange(Backend& backend, std::span<T> values, Message::Kind kind);
  // Runs an operation and reports it to the observer.
  template <typename Operation>
  Status Run(Message message, Operation operation);

  std::string name_;
  std::vector<int> ranks_;
  int rank_;
  uint64_t sums_ = 0;
  std::vector<uint64_t> sent_;  // by the group's rank
  std::vector<uint64_t> received_;
  std::unique_ptr<Backend> backend_;  // absent in a group of one
  MessageObserver* observer_ = nullptr;
};

}  // namespace longhaul::trainer
