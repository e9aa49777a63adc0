// The collective operations that the dimensions of a layout need, on the ranks of one group.
//
// All ranks of a group call the same operations in the same order, with tensors of one type. An
// operation that fails throws CommunicationError, which TrainingStep turns into a Status: libtorch
// calls these functions from inside its backward pass, and knows exceptions only.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace longhaul::training {

class CommunicationError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Communicator {
 public:
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  virtual ~Communicator() = default;

  virtual uint32_t size() const = 0;
  virtual uint32_t rank() const = 0;  // in this group

  // In place; the same bits on every rank.
  virtual void Sum(at::Tensor& values) = 0;
  virtual void Max(at::Tensor& values) = 0;
  // [n, ...] on each rank -> [size * n, ...], by rank.
  virtual at::Tensor AllGather(const at::Tensor& part) = 0;
  // [size * n, ...] on each rank -> [n, ...], the sum over the ranks of this rank's part.
  virtual at::Tensor ReduceScatter(const at::Tensor& whole) = 0;
  // Sends sent[r] rows of `rows` to rank r, in this order; returns those received, by rank.
  virtual at::Tensor AllToAll(const at::Tensor& rows, std::span<const int64_t> sent,
                              std::span<const int64_t> received) = 0;
  // What is sent with a tag arrives in order. Sending does not wait for the receiver.
  virtual void Send(const at::Tensor& values, uint32_t to, int64_t tag) = 0;
  // Of the size and type of `like`.
  virtual at::Tensor Receive(const at::Tensor& like, uint32_t from, int64_t tag) = 0;
};

// Makes the groups of a rank. Those of the same ranks are one, whatever they are for. All ranks of
// a group ask for it, in an order that all ranks share.
class CommunicatorMaker {
 public:
  virtual ~CommunicatorMaker() = default;
  // `ranks` of the world, ascending, with the caller's. `name` is for messages.
  std::shared_ptr<Communicator> Make(const std::string& name, const std::vector<uint32_t>& ranks) {
    std::shared_ptr<Communicator>& found = made_[ranks];
    if (found == nullptr) found = Create(name, ranks);
    return found;
  }

 private:
  virtual std::shared_ptr<Communicator> Create(const std::string& name,
                                               const std::vector<uint32_t>& ranks) = 0;

  std::map<std::vector<uint32_t>, std::shared_ptr<Communicator>> made_;
};

}  // namespace longhaul::training
