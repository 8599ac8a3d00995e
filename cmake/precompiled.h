// Compiled once and shared by every target: most of a file's compile time is these headers.
#pragma once

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
