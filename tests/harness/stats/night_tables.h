// The part of docs/power.md about nights of experiments (`ladder gate --expect --ledger`).
#pragma once

#include <string>

std::string night_tables();
