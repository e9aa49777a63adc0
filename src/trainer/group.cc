#include "trainer/group.h"

#include <chrono>
#include <cstdlib>
#include <exception>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

namespace longhaul::trainer {
namespace {

constexpr std::chrono::seconds kStoreTimeout{20};
// A dead peer is noticed at once by its connection; this bounds a silent one.
constexpr std::chrono::seconds kGroupTimeout{60};

Status FromException(const std::exception& error, const char* what) {
  std::string message = error.what();
  message.resize(std::min(message.find('\n'), message.size()));  // c10 adds a backtrace
  return Unavailable(std::string(what) + ": " + message);
}

}  // namespace

struct Group::Backend {
  c10::intrusive_ptr<c10d::TCPStore> store;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo;

  template <typename T>
  Status Sum(std::span<T> values, at::ScalarType type) {
    try {
      std::vector<at::Tensor> tensors = {
          at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, type)};
      gloo->allreduce(tensors)->wait();
      return {};
    } catch (const std::exception& error) {
      return FromException(error, "cannot sum over the ranks");
    }
  }
};

Group::Group(int rank, int world) : rank_(rank), world_(world) {}
Group::~Group() = default;

Result<std::unique_ptr<Group>> Group::Join(const GroupOptions& options) {
  std::unique_ptr<Group> group(new Group(options.rank, options.world));
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

    auto gloo_options = c10d::ProcessGroupGloo::Options::create(kGroupTimeout);
    gloo_options->threads = 1;  // one sum at a time
    const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
    // The store's address is this host's own in a local cluster; asking the resolver for our host
    // name could take seconds.
    const bool loopback = options.address.starts_with("127.") || options.address == "localhost";
    gloo_options->devices.push_back(
        interface != nullptr ? c10d::ProcessGroupGloo::createDeviceForInterface(interface)
        : loopback           ? c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")
                             : c10d::ProcessGroupGloo::createDefaultDevice());
    backend.gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(backend.store, options.rank,
                                                               options.world, gloo_options);
    return group;
  } catch (const std::exception& error) {
    return FromException(error, "cannot join the other ranks");
  }
}

Status Group::Sum(std::span<float> values) {
  return world_ == 1 ? Status() : backend_->Sum(values, at::kFloat);
}
Status Group::Sum(std::span<double> values) {
  return world_ == 1 ? Status() : backend_->Sum(values, at::kDouble);
}

}  // namespace longhaul::trainer
