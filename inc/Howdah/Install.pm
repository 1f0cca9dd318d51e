package Howdah::Install;

# Copies what is built to where it belongs, for `make install`, and parts it from its debug information. It reads blib/ and
# writes nothing in the checkout, so that root, or anybody else, may install what somebody has built.
use strict;
use warnings;

use ExtUtils::Install ();
use File::Spec::Functions qw(catfile);
use Howdah::DebugInfo;

# (lib => DIR, arch => DIR, script => DIR, bindoc => DIR, libdoc => DIR)
sub install {
    my %to      = @_;
    my $packed  = catfile($to{arch}, 'auto', 'Howdah', '.packlist');
    my %install = ((map { ("blib/$_" => $to{$_}) } grep { -d "blib/$_" } keys %to), read => '', write => $packed);
    ExtUtils::Install::install(\%install, -1, 0, 0);
    part($to{script}, $to{arch});
    return;
}

# Of the program's and the module's size most is debug information.
sub part {
    my ($script, $arch) = @_;
    for my $file (
        grep { -e } catfile($script, 'howdah'), map { catfile($arch, qw(auto Howdah), @$_) } [qw(XS XS.so)],
        [qw(CGI Fork Fork.so)]
        )
    {
        next if Howdah::DebugInfo::part($file);
        print {*STDERR} "$file keeps its debug information, because there is no objcopy to part them\n";
    }
    return;
}

1;
