// Sharpness-aware minimisation around any optimizer: SAM (Foret et al., ICLR 2021) and WSAM (Yue et
// al., Sharpness-Aware Minimization Revisited, KDD 2023). A step has two gradients:
//
//   g at w;   w is moved to w + e, e = radius * g / (|g| + 1e-12);   h at w + e;   w is put back
//   the optimizer's gradient is weight * h + (1 - weight) * g, weight = gamma / (1 - gamma)
//
// With gamma = 1/2 that is SAM, with gamma = 0 the optimizer alone. Decoupled WSAM gives the
// optimizer g, and then subtracts rate * weight * (h - g) from w. |g| is over all parameters of the
// model, but of one replica's own gradient: the caller sums it over parts and stages, and not over
// replicas. w + e - e has other bits than w, so the caller keeps w.
#pragma once

#include <span>

namespace longhaul::optimizer {

struct Sharpness {
  double radius = 0.05;
  double gamma = 0.9;  // 0 to below 1

  double weight() const { return gamma / (1 - gamma); }
};

// Sets `moved` to weights + e for gradients of this norm.
void Perturb(const Sharpness& sharpness, double norm, std::span<const float> weights,
             std::span<const float> gradients, std::span<float> moved);
// Sets `gradients` (g) to the mix of g and `moved_gradients` (h).
void Mix(const Sharpness& sharpness, std::span<float> gradients,
         std::span<const float> moved_gradients);
// Subtracts rate * weight * (h - g) from the weights, after the optimizer's step with g.
void Correct(const Sharpness& sharpness, double rate, std::span<float> weights,
             std::span<const float> gradients, std::span<const float> moved_gradients);

}  // namespace longhaul::optimizer
