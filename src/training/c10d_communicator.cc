#include "training/c10d_communicator.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <utility>
#include <vector>

#include "base/check.h"

namespace longhaul::training {
namespace {

// A dead peer is noticed at once by its connection; this bounds a silent one.
constexpr std::chrono::seconds kTimeout{60};

using Work = c10::intrusive_ptr<c10d::Work>;

// Gloo of libtorch 1.13 has no reduce-scatter and no all-gather into one tensor: both are made of
// what it has.
class C10dCommunicator : public Communicator {
 public:
  C10dCommunicator(c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo, std::string name)
      : gloo_(std::move(gloo)), name_(std::move(name)) {}

  uint32_t size() const override { return static_cast<uint32_t>(gloo_->getSize()); }
  uint32_t rank() const override { return static_cast<uint32_t>(gloo_->getRank()); }

  void Sum(at::Tensor& values) override { Reduce(values, c10d::ReduceOp::SUM); }
  void Max(at::Tensor& values) override { Reduce(values, c10d::ReduceOp::MAX); }

  at::Tensor AllGather(const at::Tensor& part) override {
    std::vector<at::Tensor> inputs = {part.contiguous()};
    std::vector<std::vector<at::Tensor>> outputs(1);
    for (uint32_t other = 0; other < size(); ++other) {
      outputs[0].push_back(at::empty_like(inputs[0]));
    }
    Wait(gloo_->allgather(outputs, inputs));
    return at::cat(outputs[0], 0);
  }

  // Each rank gets its part of all and adds them in the order of the ranks.
  at::Tensor ReduceScatter(const at::Tensor& whole) override {
    const std::vector<int64_t> rows(size(), whole.size(0) / size());
    const at::Tensor parts = AllToAll(whole, rows, rows);
    at::Tensor sum = parts.narrow(0, 0, rows[0]).clone();
    for (uint32_t other = 1; other < size(); ++other) {
      sum.add_(parts.narrow(0, other * rows[0], rows[0]));
    }
    return sum;
  }

  at::Tensor AllToAll(const at::Tensor& rows, std::span<const int64_t> sent,
                      std::span<const int64_t> received) override {
    std::vector<int64_t> shape = rows.sizes().vec();
    shape[0] = 0;
    for (const int64_t count : received) shape[0] += count;
    at::Tensor output = at::empty(shape, rows.options());
    at::Tensor input = rows.contiguous();
    std::vector<int64_t> out(sent.begin(), sent.end());
    std::vector<int64_t> in(received.begin(), received.end());
    Wait(gloo_->alltoall_base(output, input, in, out));
    return output;
  }

  void Send(const at::Tensor& values, uint32_t to, int64_t tag) override {
    std::vector<at::Tensor> tensors = {values.clone(at::MemoryFormat::Contiguous)};
    Work work = Try([&] { return gloo_->send(tensors, static_cast<int>(to), TagOf(tag)); });
    leaving_.emplace_back(tensors[0], std::move(work));
  }

  at::Tensor Receive(const at::Tensor& like, uint32_t from, int64_t tag) override {
    std::vector<at::Tensor> tensors = {at::empty(like.sizes(), like.scalar_type())};
    Wait(Try([&] { return gloo_->recv(tensors, static_cast<int>(from), TagOf(tag)); }));
    return tensors[0];
  }

  void Flush() override {
    for (const auto& [values, work] : std::exchange(leaving_, {})) Wait(work);
  }

 private:
  static int TagOf(int64_t tag) {
    CHECK(tag >= 0 && tag < (int64_t{1} << 31));
    return static_cast<int>(tag);
  }

  // In place, and the values may be a view of a larger tensor.
  void Reduce(at::Tensor& values, c10d::ReduceOp operation) {
    std::vector<at::Tensor> tensors = {values.contiguous()};
    c10d::AllreduceOptions options;
    options.reduceOp = operation;
    Wait(gloo_->allreduce(tensors, options));
    if (!tensors[0].is_same(values)) values.copy_(tensors[0]);
  }

  void Wait(const Work& work) {
    Try([&] {
      work->wait();
      return work;
    });
  }

  template <typename Operation>
  Work Try(Operation operation) {
    try {
      return operation();
    } catch (const std::exception& error) {
      std::string message = error.what();
      message.resize(std::min(message.find('\n'), message.size()));  // c10 adds a backtrace
      throw CommunicationError(name_ + ": " + message);
    }
  }

  const c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo_;
  const std::string name_;
  std::vector<std::pair<at::Tensor, Work>> leaving_;  // what is sent must live until it has left
};

class C10dMaker : public CommunicatorMaker {
 public:
  C10dMaker(c10::intrusive_ptr<c10d::Store> store, uint32_t rank)
      : store_(std::move(store)),
        options_(c10d::ProcessGroupGloo::Options::create(kTimeout)),
        rank_(rank) {
    options_->threads = 1;  // one operation at a time
    options_->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  }

 private:
  std::shared_ptr<Communicator> Create(const std::string& name,
                                       const std::vector<uint32_t>& ranks) override {
    const auto own = std::find(ranks.begin(), ranks.end(), rank_);
    CHECK(own != ranks.end());
    std::string prefix;
    for (const uint32_t rank : ranks) prefix += std::to_string(rank) + '.';
    try {
      return std::make_shared<C10dCommunicator>(
          c10::make_intrusive<c10d::ProcessGroupGloo>(
              c10::make_intrusive<c10d::PrefixStore>(prefix, store_),
              static_cast<int>(own - ranks.begin()), static_cast<int>(ranks.size()), options_),
          name);
    } catch (const std::exception& error) {
      throw CommunicationError("cannot join the group " + name + ": " + error.what());
    }
  }

  const c10::intrusive_ptr<c10d::Store> store_;
  const c10::intrusive_ptr<c10d::ProcessGroupGloo::Options> options_;  // one device for all groups
  const uint32_t rank_;
};

}  // namespace

Result<std::unique_ptr<CommunicatorMaker>> JoinByFile(const std::string& path, uint32_t world,
                                                      uint32_t rank) {
  try {
    auto store = c10::make_intrusive<c10d::FileStore>(path, static_cast<int>(world));
    store->setTimeout(kTimeout);
    return std::unique_ptr<CommunicatorMaker>(std::make_unique<C10dMaker>(std::move(store), rank));
  } catch (const std::exception& error) {
    return Unavailable("cannot join the other ranks by " + path + ": " + error.what());
  }
}

}  // namespace longhaul::training
