#include "trainer/worker/finish.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/check.h"
#include "base/hash.h"
#include "base/random.h"
#include "corpus/corpus.h"
#include "trainer/calibrate/peak.h"

namespace longhaul::trainer {

uint32_t Draw(std::span<const float> logits, double temperature, double uniform) {
  CHECK(!logits.empty());
  const auto likeliest = std::max_element(logits.begin(), logits.end());
  if (temperature <= 0) return static_cast<uint32_t>(likeliest - logits.begin());
  std::vector<double> weights;
  double sum = 0;
  for (const float logit : logits) {
    weights.push_back(std::exp((static_cast<double>(logit) - *likeliest) / temperature));
    sum += weights.back();
  }
  double left = uniform * sum;
  for (size_t i = 0; i < weights.size(); ++i) {
    left -= weights[i];
    if (left < 0) return static_cast<uint32_t>(i);
  }
  return static_cast<uint32_t>(likeliest - logits.begin());  // rounding at the very end
}

std::string GenerateText(Gpt& model, uint32_t sequence, const spec::SampleSpec& sample,
                         uint64_t seed) {
  std::vector<int64_t> tokens = {corpus::kSeparator};
  for (const char byte : sample.prompt) tokens.push_back(static_cast<unsigned char>(byte));
  Random random(Hash64(std::string_view("sample"), seed));
  std::string text;
  while (text.size() < sample.bytes) {
    const size_t length = std::min<size_t>(tokens.size(), sequence);
    const auto logits = model.NextLogits(std::span(tokens).last(length));
    const uint32_t token = Draw(logits, sample.temperature, random.Uniform());
    if (token == corpus::kSeparator) break;
    tokens.push_back(token);
    text.push_back(static_cast<char>(token));
  }
  return text;
}

std::string ResultJson(const FinalFacts& facts) {
  char hash[17];
  std::snprintf(hash, sizeof(hash), "%016llx", static_cast<unsigned long long>(facts.weights_hash));
  const int cores = UsableCores();
  nlohmann::ordered_json json;
  json["prompt"] = facts.prompt;
  json["sample"] = facts.sample;
  json["parameters"] = facts.parameters;
  json["weights_hash"] = hash;
  json["validation_loss"] = facts.validation_loss;  // NaN is written as null
  json["peak_flops_per_second"] = facts.peak_per_core.count() * cores;
  json["cores"] = cores;
  json["peak_memory_bytes"] = facts.peak_memory.count();
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace longhaul::trainer
