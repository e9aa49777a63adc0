// The ranks of an epoch, and the sums over them: Gloo through c10d, joined over a TCPStore.
//
// A failed sum poisons the group (a peer is gone): the process should end, a new epoch makes a new
// group. Sums are the same bits on every rank, and the same in each run of a layout.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"

namespace longhaul::trainer {

struct GroupOptions {
  int rank = 0;
  int world = 1;
  std::string address = "127.0.0.1";  // of the store
  uint16_t port = 0;
  bool serve_store = false;  // rank 0 of a run without an agent
};

class Group {
 public:
  // A world of one needs no store. kUnavailable when the others don't come.
  static Result<std::unique_ptr<Group>> Join(const GroupOptions& options);
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group();

  // In place, over all ranks. kUnavailable when a peer is gone.
  Status Sum(std::span<float> values);
  Status Sum(std::span<double> values);

  int rank() const { return rank_; }
  int world() const { return world_; }

 private:
  struct Backend;
  Group(int rank, int world);

  int rank_;
  int world_;
  std::unique_ptr<Backend> backend_;
};

}  // namespace longhaul::trainer
