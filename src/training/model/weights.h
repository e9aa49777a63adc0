// The weights of one layer on this rank, by their names without the layer's prefix.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"

namespace longhaul::training {

struct Weight {
  at::Tensor value;     // a leaf of libtorch's graph
  at::Tensor gradient;  // added to in place; also the leaf's own
};

class WeightSet {
 public:
  void Add(std::string name, Weight weight) { weights_[std::move(name)] = std::move(weight); }
  bool Has(std::string_view name) const { return weights_.find(name) != weights_.end(); }
  const Weight& operator[](std::string_view name) const {
    const auto found = weights_.find(name);
    CHECK(found != weights_.end()) << "no weight named " << name;
    return found->second;
  }

 private:
  std::map<std::string, Weight, std::less<>> weights_;
};

// The gradients of weights that are computed after the gradient of the input (W after B in a
// schedule), because another stage waits for the latter.
class DeferredGradients {
 public:
  void Collect(bool on) { collects_ = on; }
  bool collects() const { return collects_; }
  void Add(std::function<void()> work) { work_.push_back(std::move(work)); }
  std::vector<std::function<void()>> Take() { return std::exchange(work_, {}); }

 private:
  bool collects_ = false;
  std::vector<std::function<void()>> work_;
};

}  // namespace longhaul::training
