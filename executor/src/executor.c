typedef int tw_nothing_yet;
