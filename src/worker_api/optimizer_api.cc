// The optimizers of include/longhaul.h: checks the arguments and calls the module optimizer.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

#include "base/status.h"
#include "longhaul.h"
#include "optimizer/adafactor.h"
#include "optimizer/adamw.h"
#include "optimizer/agd.h"
#include "optimizer/group_lasso.h"
#include "optimizer/lion.h"
#include "optimizer/muon.h"
#include "optimizer/sharpness.h"
#include "worker_api/c_edge.h"

using longhaul::InvalidArgument;
using longhaul::Status;
using longhaul::worker_api::AtTheEdge;
namespace optimizer = longhaul::optimizer;

namespace {

constexpr double kTiny = std::numeric_limits<double>::denorm_min();           // the least above 0
constexpr double kBelowOne = 1 - std::numeric_limits<double>::epsilon() / 2;  // the most below 1

// A number that must lie in [least, most].
struct Number {
  const char* name;
  double value;
  double least;
  double most = std::numeric_limits<double>::max();
};

// An array of floats.
struct Array {
  const char* name;
  const float* data;
  size_t count;
};

Status CheckNumbers(std::initializer_list<Number> numbers) {
  for (const Number& number : numbers) {
    // Written as a negation, so that a NaN is refused too.
    if (!(number.value >= number.least && number.value <= number.most)) {
      const std::string below = number.most == kBelowOne ? " and below 1" : "";
      const std::string at_most = number.most == 1 ? " and at most 1" : "";
      return InvalidArgument(std::string(number.name) + " is " + std::to_string(number.value) +
                             ", expected a finite number " +
                             (number.least == kTiny ? "above 0" : "of at least 0") + below +
                             at_most);
    }
  }
  return {};
}

// The number that a caller's struct begins with.
template <typename Options>
Status CheckSize(const char* name, const Options* options) {
  if (options == nullptr) return InvalidArgument(std::string(name) + " is null");
  if (options->size != sizeof(Options)) {
    return InvalidArgument(std::string(name) + " has size " + std::to_string(options->size) +
                           ", expected " + std::to_string(sizeof(Options)) +
                           ": set its member size to sizeof of the struct, and use the header of "
                           "this library's version");
  }
  return {};
}

Status CheckUpdate(const longhaul_update* update) {
  RETURN_IF_ERROR(CheckSize("update", update));
  if (update->number == 0) return InvalidArgument("update has number 0, expected at least 1");
  if (!std::isfinite(update->scale)) {
    return InvalidArgument("scale is " + std::to_string(update->scale) +
                           ", expected a finite number");
  }
  return CheckNumbers({{"rate", update->rate, 0}, {"decay", update->decay, 0}});
}

// Of an optimizer whose penalties replace the decay.
Status CheckPenalties(const longhaul_update* update, double l1, double l2, double l21) {
  RETURN_IF_ERROR(CheckUpdate(update));
  if (update->decay != 0) {
    return InvalidArgument("decay is " + std::to_string(update->decay) +
                           ", expected 0: use the penalty l2");
  }
  return CheckNumbers({{"l1", l1, 0}, {"l2", l2, 0}, {"l21", l21, 0}});
}

Status CheckRows(size_t rows, size_t columns) {
  if (rows == 0 || columns == 0 || rows > SIZE_MAX / sizeof(float) / columns) {
    return InvalidArgument("a matrix has " + std::to_string(rows) + " rows and " +
                           std::to_string(columns) + " columns, expected at least 1 of each");
  }
  return {};
}

bool Overlap(const Array& a, const Array& b) {
  const auto first = reinterpret_cast<uintptr_t>(a.data);
  const auto second = reinterpret_cast<uintptr_t>(b.data);
  return first < second + b.count * sizeof(float) && second < first + a.count * sizeof(float);
}

Status CheckArrays(std::initializer_list<Array> arrays) {
  for (const Array& array : arrays) {
    const std::string name = array.name;
    if (array.data == nullptr) return InvalidArgument(name + " is null");
    if (array.count == 0 || array.count > SIZE_MAX / sizeof(float)) {
      return InvalidArgument(name + " has " + std::to_string(array.count) +
                             " elements, expected at least 1");
    }
    const auto address = reinterpret_cast<uintptr_t>(array.data);
    if (address % alignof(float) != 0) {
      return InvalidArgument(name + " is not aligned to 4 bytes");
    }
    if (array.count * sizeof(float) > UINTPTR_MAX - address) {
      return InvalidArgument(name + " has " + std::to_string(array.count) +
                             " elements, more than the address space holds");
    }
    for (const Array* other = arrays.begin(); other != &array; ++other) {
      if (Overlap(array, *other)) {
        return InvalidArgument(name + " overlaps " + other->name + ": pass separate arrays");
      }
    }
  }
  return {};
}

optimizer::Step StepOf(const longhaul_update& update) {
  return {update.number, update.rate, update.decay, update.scale};
}

Status CheckSharpness(const longhaul_sharpness_options* options) {
  RETURN_IF_ERROR(CheckSize("options", options));
  return CheckNumbers({{"radius", options->radius, 0}, {"gamma", options->gamma, 0, kBelowOne}});
}

Status CheckAdaGrad(const longhaul_group_adagrad_options* options, const longhaul_update* update) {
  RETURN_IF_ERROR(CheckSize("options", options));
  RETURN_IF_ERROR(CheckPenalties(update, options->l1, options->l2, options->l21));
  return CheckNumbers({{"power", options->power, kTiny, 1},
                       {"initial", options->initial, kTiny},
                       {"rate", update->rate, kTiny}});
}

optimizer::GroupAdaGrad AdaGradOf(const longhaul_group_adagrad_options& options) {
  return {options.power, options.initial, {options.l1, options.l2, options.l21}};
}

}  // namespace

int longhaul_adamw(const longhaul_adamw_options* options, const longhaul_update* update,
                   size_t count, float* weights, const float* gradients, float* first,
                   float* second, longhaul_error* error) {
  return AtTheEdge(error, [&]() -> Status {
    RETURN_IF_ERROR(CheckSize("options", options));
    RETURN_IF_ERROR(CheckUpdate(update));
    RETURN_IF_ERROR(CheckNumbers({{"beta1", options->beta1, 0, kBelowOne},
                                  {"beta2", options->beta2, 0, kBelowOne},
                                  {"epsilon", options->epsilon, 0}}));
    RETURN_IF_ERROR(CheckArrays({{"weights", weights, count},
                                 {"gradients", gradients, count},
                                 {"first", first, count},
                                 {"second", second, count}}));
    optimizer::Update(optimizer::AdamW{options->beta1, options->beta2, options->epsilon},
                      StepOf(*update), {weights, count}, {gradients, count}, {first, count},
                      {second, count});
    return {};
  });
}

int longhaul_agd(const longhaul_agd_options* options, const longhaul_update* update, size_t count,
                 float* weights, const float* gradients, float* first, float* second,
                 longhaul_error* error) {
  return AtTheEdge(error, [&]() -> Status {
    RETURN_IF_ERROR(CheckSize("options", options));
    RETURN_IF_ERROR(CheckUpdate(update));
    RETURN_IF_ERROR(CheckNumbers({{"beta1", options->beta1, 0, kBelowOne},
                                  {"beta2", options->beta2, 0, kBelowOne},
                                  {"delta", options->delta, kTiny}}));
    RETURN_IF_ERROR(CheckArrays({{"weights", weights, count},
                                 {"gradients", gradients, count},
                                 {"first", first, count},
                                 {"second", second, count}}));
    optimizer::Update(optimizer::Agd{options->beta1, options->beta2, options->delta},
                      StepOf(*update), {weights, count}, {gradients, count}, {first, count},
                      {second, count});
    return {};
  });
}

int longhaul_lion(const longhaul_lion_options* options, const longhaul_update* update, size_t count,
                  float* weights, const float* gradients, float* momentum, longhaul_error* error) {
  return AtTheEdge(error, [&]() -> Status {
    RETURN_IF_ERROR(CheckSize("options", options));
    RETURN_IF_ERROR(CheckUpdate(update));
    RETURN_IF_ERROR(CheckNumbers(
        {{"beta1", options->beta1, 0, kBelowOne}, {"beta2", options->beta2, 0, kBelowOne}}));
    RETURN_IF_ERROR(CheckArrays({{"weights", weights, count},
                                 {"gradients", gradients, count},
                                 {"momentum", momentum, count}}));
    optimizer::Update(optimizer::Lion{options->beta1, options->beta2}, StepOf(*update),
                      {weights, count}, {gradients, count}, {momentum, count});
    return {};
  });
}

int longhaul_adafactor(const longhaul_adafactor_options* options, const longhaul_update* update,
                       size_t rows, size_t columns, float* weights, const float* gradients,
                       float* state, longhaul_error* error) {
  return AtTheEdge(error, [&]() -> Status {
    RETURN_IF_ERROR(CheckSize("options", options));
    RETURN_IF_ERROR(CheckUpdate(update));
    RETURN_IF_ERROR(CheckNumbers({{"epsilon", options->epsilon, kTiny},
                                  {"least", options->least, 0},
                                  {"threshold", options->threshold, kTiny}}));
    RETURN_IF_ERROR(CheckRows(rows, columns));
    const optimizer::Adafactor adafactor{options->epsilon, options->least, options->threshold};
    const size_t count = rows * columns, kept = optimizer::StateOf(adafactor, rows, columns);
    RETURN_IF_ERROR(CheckArrays(
        {{"weights", weights, count}, {"gradients", gradients, count}, {"state", state, kept}}));
    optimizer::Update(adafactor, StepOf(*update), rows, columns, {weights, count},
                      {gradients, count}, {state, kept});
    return {};
  });
}

int longhaul_muon(const longhaul_muon_options* options, const longhaul_update* update, size_t rows,
                  size_t columns, float* weights, const float* gradients, float* momentum,
                  longhaul_matrix_product product, void* argument, longhaul_error* error) {
  return AtTheEdge(error, [&]() -> Status {
    RETURN_IF_ERROR(CheckSize("options", options));
    RETURN_IF_ERROR(CheckUpdate(update));
    RETURN_IF_ERROR(CheckNumbers({{"momentum", options->momentum, 0, kBelowOne}}));
    if (product == nullptr) return InvalidArgument("product is null");
    RETURN_IF_ERROR(CheckRows(rows, columns));
    const size_t count = rows * columns;
    RETURN_IF_ERROR(CheckArrays({{"weights", weights, count},
                                 {"gradients", gradients, count},
                                 {"momentum", momentum, count}}));
    const std::vector<float> old_weights(weights, weights + count);
    const std::vector<float> old_momentum(momentum, momentum + count);
    bool failed = false;
    const auto multiply = [&](size_t m, size_t n, size_t k, const float* a, const float* b,
                              bool transpose_b, float* out) {
      if (!failed) failed = product(argument, m, n, k, a, b, transpose_b ? 1 : 0, out) != 0;
    };
    using Scaling = optimizer::Muon::Scaling;
    optimizer::Update({.momentum = options->momentum,
                       .scaling = options->like_adamw != 0 ? Scaling::kLikeAdamW : Scaling::kShape},
                      StepOf(*update), rows, columns, {weights, count}, {gradients, count},
                      {momentum, count}, multiply);
    if (!failed) return {};
    std::copy(old_weights.begin(), old_weights.end(), weights);
    std::copy(old_momentum.begin(), old_momentum.end(), momentum);
    return Status(longhaul::Code::kFailedPrecondition, "a product of matrices failed");
  });
}

int longhaul_group_adam(const longhaul_group_adam_options* options, const longhaul_update* update,
                        size_t rows, size_t columns, float* weights, const float* gradients,
                        float* first, float* second, float* offset, size_t* dropped,
                        longhaul_error* error) {
  return AtTheEdge(error, [&]() -> Status {
    RETURN_IF_ERROR(CheckSize("options", options));
    RETURN_IF_ERROR(CheckPenalties(update, options->l1, options->l2, options->l21));
    RETURN_IF_ERROR(CheckNumbers({{"beta1", options->beta1, 0, kBelowOne},
                                  {"beta2", options->beta2, 0, kBelowOne},
                                  {"epsilon", options->epsilon, kTiny}}));
    RETURN_IF_ERROR(CheckRows(rows, columns));
    const size_t count = rows * columns;
    RETURN_IF_ERROR(CheckArrays({{"weights", weights, count},
                                 {"gradients", gradients, count},
                                 {"first", first, count},
                                 {"second", second, count},
                                 {"offset", offset, count}}));
    const size_t zero =
        optimizer::Update(optimizer::GroupAdam{options->beta1,
                                               options->beta2,
                                               options->epsilon,
                                               {options->l1, options->l2, options->l21}},
                          StepOf(*update), columns, {weights, count}, {gradients, count},
                          {first, count}, {second, count}, {offset, count});
    if (dropped != nullptr) *dropped = zero;
    return {};
  });
}

int longhaul_group_adagrad_begin(const longhaul_group_adagrad_options* options,
                                 const longhaul_update* update, size_t count, const float* weights,
                                 float* sum, float* offset, longhaul_error* error) {
  return AtTheEdge(error, [&]() -> Status {
    RETURN_IF_ERROR(CheckAdaGrad(options, update));
    RETURN_IF_ERROR(
        CheckArrays({{"weights", weights, count}, {"sum", sum, count}, {"offset", offset, count}}));
    optimizer::Begin(AdaGradOf(*options), update->rate, {weights, count}, {sum, count},
                     {offset, count});
    return {};
  });
}

int longhaul_group_adagrad(const longhaul_group_adagrad_options* options,
                           const longhaul_update* update, size_t rows, size_t columns,
                           float* weights, const float* gradients, float* sum, float* offset,
                           size_t* dropped, longhaul_error* error) {
  return AtTheEdge(error, [&]() -> Status {
    RETURN_IF_ERROR(CheckAdaGrad(options, update));
    RETURN_IF_ERROR(CheckRows(rows, columns));
    const size_t count = rows * columns;
    RETURN_IF_ERROR(CheckArrays({{"weights", weights, count},
                                 {"gradients", gradients, count},
                                 {"sum", sum, count},
                                 {"offset", offset, count}}));
    const size_t zero =
        optimizer::Update(AdaGradOf(*options), StepOf(*update), columns, {weights, count},
                          {gradients, count}, {sum, count}, {offset, count});
    if (dropped != nullptr) *dropped = zero;
    return {};
  });
}

int longhaul_sharpness_perturb(const longhaul_sharpness_options* options, double norm, size_t count,
                               const float* weights, const float* gradients, float* moved,
                               longhaul_error* error) {
  return AtTheEdge(error, [&]() -> Status {
    RETURN_IF_ERROR(CheckSharpness(options));
    RETURN_IF_ERROR(CheckNumbers({{"norm", norm, 0}}));
    RETURN_IF_ERROR(CheckArrays(
        {{"weights", weights, count}, {"gradients", gradients, count}, {"moved", moved, count}}));
    optimizer::Perturb({options->radius, options->gamma}, norm, {weights, count},
                       {gradients, count}, {moved, count});
    return {};
  });
}

int longhaul_sharpness_mix(const longhaul_sharpness_options* options, size_t count,
                           float* gradients, const float* moved_gradients, longhaul_error* error) {
  return AtTheEdge(error, [&]() -> Status {
    RETURN_IF_ERROR(CheckSharpness(options));
    RETURN_IF_ERROR(CheckArrays(
        {{"gradients", gradients, count}, {"moved_gradients", moved_gradients, count}}));
    optimizer::Mix({options->radius, options->gamma}, {gradients, count}, {moved_gradients, count});
    return {};
  });
}

int longhaul_sharpness_correct(const longhaul_sharpness_options* options, double rate, size_t count,
                               float* weights, const float* gradients, const float* moved_gradients,
                               longhaul_error* error) {
  return AtTheEdge(error, [&]() -> Status {
    RETURN_IF_ERROR(CheckSharpness(options));
    RETURN_IF_ERROR(CheckNumbers({{"rate", rate, 0}}));
    RETURN_IF_ERROR(CheckArrays({{"weights", weights, count},
                                 {"gradients", gradients, count},
                                 {"moved_gradients", moved_gradients, count}}));
    optimizer::Correct({options->radius, options->gamma}, rate, {weights, count},
                       {gradients, count}, {moved_gradients, count});
    return {};
  });
}
