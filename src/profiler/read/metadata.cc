#include "profiler/read/metadata.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

namespace longhaul::profiler {
namespace {

using Json = nlohmann::json;

constexpr auto kMembers = std::to_array<std::string_view>(
    {"deviceProperties", "distributedInfo", "baseTimeNanoseconds", "hostname", "host"});
constexpr size_t kMaxGroups = 1 << 20;

int64_t Integer(const Json& object, const char* key, int64_t otherwise) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) return otherwise;
  return found->get<int64_t>();
}

std::string Text(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return "";
  if (found->is_string()) return found->get<std::string>();
  if (found->is_number_integer()) return std::to_string(found->get<int64_t>());
  return "";
}

void ReadGroups(const Json& groups, Metadata* metadata) {
  for (const Json& group : groups) {
    if (!group.is_object() || metadata->groups.size() >= kMaxGroups) continue;
    GroupConfig config;
    config.name = Text(group, "pg_name");
    if (config.name.empty()) config.name = Text(group, "uid");
    config.description = Text(group, "pg_desc");
    const auto ranks = group.find("ranks");
    if (ranks != group.end() && ranks->is_array()) {
      for (const Json& rank : *ranks) {
        if (rank.is_number_integer()) config.ranks.push_back(rank.get<int64_t>());
      }
    } else if (ranks != group.end() && ranks->is_string()) {
      bool cut = false;
      config.ranks = ParseRanks(ranks->get_ref<const std::string&>(), &cut);
      if (cut) config.ranks.clear();
    }
    metadata->groups.push_back(std::move(config));
  }
}

void ReadDistributed(const Json& json, Metadata* metadata) {
  metadata->rank = Integer(json, "rank", metadata->rank);
  metadata->world_size = Integer(json, "world_size", metadata->world_size);
  if (const std::string host = Text(json, "host"); !host.empty()) metadata->host = host;
  const auto groups = json.find("pg_config");
  if (groups != json.end() && groups->is_array()) ReadGroups(*groups, metadata);
}

}  // namespace

bool IsKnownMember(std::string_view key) {
  return std::find(kMembers.begin(), kMembers.end(), key) != kMembers.end();
}

bool ReadMember(std::string_view key, std::string_view text, Metadata* metadata) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return false;
  if (key == "deviceProperties") {
    if (!json.is_array()) return false;
    metadata->devices = static_cast<int64_t>(json.size());
    if (!json.empty() && json[0].is_object()) metadata->device_name = Text(json[0], "name");
  } else if (key == "distributedInfo") {
    if (!json.is_object()) return false;
    ReadDistributed(json, metadata);
  } else if (key == "baseTimeNanoseconds") {
    if (!json.is_number_integer()) return false;
    metadata->base_time_ns = json.get<int64_t>();
  } else {
    if (!json.is_string()) return false;
    metadata->host = json.get<std::string>();
  }
  return true;
}

std::vector<int64_t> ParseRanks(std::string_view text, bool* cut) {
  std::vector<int64_t> ranks;
  *cut = !text.starts_with('[') || !text.ends_with(']') || text.find("...") != text.npos;
  for (size_t i = 0; i < text.size();) {
    if (text[i] < '0' || text[i] > '9') {
      ++i;
      continue;
    }
    int64_t rank = 0;
    const auto [end, error] = std::from_chars(text.data() + i, text.data() + text.size(), rank);
    if (error == std::errc()) ranks.push_back(rank);
    i = static_cast<size_t>(end - text.data());
  }
  return ranks;
}

}  // namespace longhaul::profiler
