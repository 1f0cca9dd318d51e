package Howdah::CGI::Fork;

# Evaluated in the first line of a script that perl is about to compile, so it loads nothing, and what it defines is
# removed by what it calls: see xs-fork/traces.c.
sub {    ## no critic (RequireUseStrict, RequireUseWarnings)
    my $object = shift;
    DynaLoader::boot_DynaLoader('DynaLoader');
    my $library = DynaLoader::dl_load_file($object, 0);
    my ($why) = $library ? () : split /\n/, DynaLoader::dl_error();      # behind which there is a zero byte
    die "$^X cannot load this; is Howdah built for another perl? $why\n" if !$library;
    my $symbol = DynaLoader::dl_find_symbol($library, 'howdah_fork_load') || die "$object is none of Howdah's\n";
    DynaLoader::dl_install_xsub('Howdah::CGI::Fork::load', $symbol)->();
};
